"""Log-probs of chosen tokens from hidden states, in chunks: [tokens, vocabulary] is never in memory as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from agent_r1_core.errors import ModelError

_CHUNK = {"cpu": 2**24, "cuda": 2**27}
"""Logits at a time, .06 and .5 GiB in float32; a pass holds two or three times that. Every chunk reads all weights of
the head and adds to their gradient, which few rows do not make worth while on a GPU."""
_LEAST = -1e6
"""Stands for the log-prob -inf: exp of it is 0."""


class Head:
    """The output embeddings of a model, with what its architecture does to logits after them."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.linear: nn.Module = model.get_output_embeddings()
        self.vocabulary = int(self.linear.weight.shape[0])
        self.scale, self.finish = _finisher(model.config)

    def logprobs(
        self, hidden: Tensor, ids: Tensor, temperature: float, entropy_gradient: bool = False
    ) -> tuple[Tensor, Tensor]:
        """log softmax(logits / temperature) of each id, and the entropy of each distribution.

        Args:
            hidden: [k, width], at the positions before the ids.
            ids: long [k].
            entropy_gradient: whether the entropy has a gradient; without one it costs less.

        Returns:
            float32 [k] and [k], nats.
        """
        chunk = max(64, _CHUNK[hidden.device.type] // self.vocabulary)
        if self.scale is not None and type(self.linear) is nn.Linear:
            scale = self.scale / temperature
            outputs: tuple[Tensor, Tensor] = _LinearLogprobs.apply(
                hidden, self.linear.weight, self.linear.bias, ids, scale, chunk, entropy_gradient
            )
            return outputs
        if hidden.shape[0] <= chunk:
            return self._chunk(hidden, ids, temperature, entropy_gradient)
        chunks = [
            checkpoint(self._chunk, h, i, temperature, entropy_gradient, use_reentrant=False, preserve_rng_state=False)
            for h, i in zip(hidden.split(chunk), ids.split(chunk), strict=True)
        ]
        return torch.cat([chunk[0] for chunk in chunks]), torch.cat([chunk[1] for chunk in chunks])

    def logits(self, hidden: Tensor) -> Tensor:
        """float32 [k, vocabulary]."""
        return self.finish(self.linear(hidden).float())

    def _chunk(self, hidden: Tensor, ids: Tensor, temperature: float, entropy_gradient: bool) -> tuple[Tensor, Tensor]:
        logits = self.logits(hidden)
        logits = logits if temperature == 1.0 else logits / temperature
        normaliser = torch.logsumexp(logits, -1)
        logprobs = logits.gather(1, ids[:, None])[:, 0] - normaliser
        with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
            probabilities = torch.exp(logits - normaliser[:, None])
            entropy = normaliser - (probabilities * logits).nan_to_num(0.0).sum(-1)
        return logprobs, entropy

    @torch.no_grad()
    def check(self, model: PreTrainedModel, decoder: PreTrainedModel) -> None:
        """Compare with the model's own logits on a few tokens.

        Raises:
            ModelError: the architecture treats its logits in a way unknown here.
        """
        ids = torch.arange(6, device=next(model.parameters()).device)[None] % self.vocabulary
        expected = model(input_ids=ids, use_cache=False).logits.float()
        logits = self.logits(decoder(input_ids=ids, use_cache=False).last_hidden_state)
        if logits.shape != expected.shape or not torch.allclose(logits, expected, 1e-2, 1e-2):
            raise ModelError(
                f"{type(model).__name__} computes its logits in a way that the learner does not know; "
                "train a model whose logits are its output embeddings applied to its decoder"
            )


class _LinearLogprobs(torch.autograd.Function):
    """Log-probs and entropies of a linear head without any graph: the backward pass computes the logits of a chunk
    again, turns them into their gradient in place, and adds all chunks to one gradient of the weights.

    With z the logits, p their softmax, H its entropy and g the gradients from above:
    dL/dz = g_logprob (onehot - p) - g_H p (log p + H)."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        ids: Tensor,
        scale: float,
        chunk: int,
        entropy_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        kind = hidden.device.type
        ctx.dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
        ctx.scale, ctx.chunk, ctx.entropy_gradient = scale, chunk, entropy_gradient
        chunks = []
        with torch.autocast(kind, enabled=False):
            low = _low(ctx.dtype, weight, bias)
            for start in range(0, max(len(ids), 1), chunk):
                logits = _logits(hidden[start : start + chunk], low, scale)
                normaliser = torch.logsumexp(logits, -1)
                logprobs = logits.gather(1, ids[start : start + chunk, None])[:, 0] - normaliser
                probabilities = torch.exp(logits - normaliser[:, None])
                entropy = normaliser - probabilities.mul_(logits).nan_to_num_(0.0).sum(-1)
                chunks.append((logprobs, entropy, normaliser))
        logprobs, entropy, normaliser = (torch.cat(part) for part in zip(*chunks, strict=True))
        ctx.save_for_backward(hidden, weight, bias, ids, normaliser, entropy if entropy_gradient else None)
        if not entropy_gradient:
            ctx.mark_non_differentiable(entropy)
        return logprobs, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, logprob_grad: Tensor, entropy_grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, ids, normaliser, entropy = ctx.saved_tensors
        to_hidden, to_weight, to_bias = ctx.needs_input_grad[:3]
        hidden_grad = torch.empty_like(hidden) if to_hidden else None
        weight_grad = torch.zeros_like(weight) if to_weight else None
        bias_grad = torch.zeros_like(bias) if to_bias else None
        with torch.autocast(hidden.device.type, enabled=False):
            low = _low(ctx.dtype, weight, bias)
            for start in range(0, len(ids), ctx.chunk):
                span = slice(start, start + ctx.chunk)
                pull = logprob_grad[span, None].float() * ctx.scale
                logits = _logits(hidden[span], low, ctx.scale).sub_(normaliser[span, None])
                if ctx.entropy_gradient:
                    entropy_pull = entropy_grad[span, None].float() * ctx.scale
                    # An id of probability 0 has log p = -inf and no gradient; 0 x inf would be none either.
                    factor = (logits + entropy[span, None]).clamp_(min=_LEAST).mul_(entropy_pull).add_(pull)
                    logits_grad = logits.exp_().mul_(factor.neg_())
                else:
                    logits_grad = logits.exp_().mul_(-pull)
                logits_grad.scatter_add_(1, ids[span, None], pull)
                logits_grad = logits_grad.to(ctx.dtype)
                if hidden_grad is not None:
                    hidden_grad[span] = logits_grad @ low[0]
                if weight_grad is not None:
                    if weight_grad.dtype == ctx.dtype:
                        weight_grad.addmm_(logits_grad.t(), hidden[span].to(ctx.dtype))
                    else:
                        weight_grad += logits_grad.t() @ hidden[span].to(ctx.dtype)
                if bias_grad is not None:
                    bias_grad += logits_grad.sum(0)
        return hidden_grad, weight_grad, bias_grad, None, None, None, None


def _low(dtype: torch.dtype, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Weights in the precision of the products."""
    return weight.to(dtype), None if bias is None else bias.to(dtype)


def _logits(hidden: Tensor, low: tuple[Tensor, Tensor | None], scale: float) -> Tensor:
    """float32 [k, vocabulary], scaled."""
    logits = nn.functional.linear(hidden.to(low[0].dtype), *low).float()
    return logits if scale == 1.0 else logits.mul_(scale)


def _finisher(config: Any) -> tuple[float | None, Callable[[Tensor], Tensor]]:
    """Soft capping (Gemma), scaling (Cohere, Granite), or nothing; with the factor where it is no more than that."""
    cap = getattr(config, "final_logit_softcapping", None)
    factor = float(getattr(config, "logit_scale", None) or 1.0) / float(getattr(config, "logits_scaling", None) or 1.0)
    if cap is None:
        return factor, lambda logits: logits if factor == 1.0 else logits * factor
    return None, lambda logits: torch.tanh(logits * factor / cap) * cap
