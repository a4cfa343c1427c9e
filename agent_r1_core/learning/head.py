"""Log-probs of chosen tokens from hidden states, in chunks: [tokens, vocabulary] never stands whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from agent_r1_core.errors import ModelError

_CHUNK = 2**24
"""Logits at a time: 64 MiB in float32; a backward pass holds about four times that."""


class Head:
    """The output embeddings of a model, with what its architecture does to logits after them."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.linear: nn.Module = model.get_output_embeddings()
        self.vocabulary = int(self.linear.weight.shape[0])
        self.finish = _finisher(model.config)

    def scores(self, hidden: Tensor, ids: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """log softmax(logits / temperature) of each id, and the entropy of each distribution without gradient.

        Args:
            hidden: [k, width], at the positions before the ids.
            ids: long [k].

        Returns:
            float32 [k] and [k], nats.
        """
        chunk = max(64, _CHUNK // self.vocabulary)
        if hidden.shape[0] <= chunk:
            return self._chunk(hidden, ids, temperature)
        parts = [
            checkpoint(self._chunk, h, i, temperature, use_reentrant=False, preserve_rng_state=False)
            for h, i in zip(hidden.split(chunk), ids.split(chunk), strict=True)
        ]
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])

    def logits(self, hidden: Tensor) -> Tensor:
        """float32 [k, vocabulary]."""
        return self.finish(self.linear(hidden).float())

    def _chunk(self, hidden: Tensor, ids: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        logits = self.logits(hidden)
        logits = logits if temperature == 1.0 else logits / temperature
        normaliser = torch.logsumexp(logits, -1)
        logprobs = logits.gather(1, ids[:, None])[:, 0] - normaliser
        with torch.no_grad():
            probabilities = torch.exp(logits - normaliser[:, None])
            entropy = normaliser - probabilities.mul_(logits).nan_to_num_(0.0).sum(-1)
        return logprobs, entropy

    @torch.no_grad()
    def check(self, model: PreTrainedModel, decoder: PreTrainedModel) -> None:
        """Compare with the model's own logits on a few tokens.

        Raises:
            ModelError: the architecture treats its logits in a way unknown here.
        """
        ids = torch.arange(6, device=next(model.parameters()).device)[None] % self.vocabulary
        expected = model(input_ids=ids, use_cache=False).logits.float()
        found = self.logits(decoder(input_ids=ids, use_cache=False).last_hidden_state)
        if found.shape != expected.shape or not torch.allclose(found, expected, 1e-2, 1e-2):
            raise ModelError(
                f"{type(model).__name__} computes its logits in a way that the learner does not know; "
                "train a model whose logits are its output embeddings applied to its decoder"
            )


def _finisher(config: Any) -> Callable[[Tensor], Tensor]:
    """Soft capping (Gemma), scaling (Cohere, Granite), or nothing."""
    cap = getattr(config, "final_logit_softcapping", None)
    factor = float(getattr(config, "logit_scale", None) or 1.0) / float(getattr(config, "logits_scaling", None) or 1.0)
    if cap is None and factor == 1.0:
        return lambda logits: logits
    if cap is None:
        return lambda logits: logits * factor
    return lambda logits: torch.tanh(logits * factor / cap) * cap
