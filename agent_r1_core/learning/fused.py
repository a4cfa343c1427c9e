"""Norms, activations and rotary embeddings of Llama-like decoders by kernels, in one pass over memory each, with their
gradients: on a CPU in float32 by those in C++, on a GPU by what torch compiles. Formulas are those of transformers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from agent_r1_core.kernels import Kernels, Norm, compiled, kernels, switched_on
from agent_r1_core.learning.attention import NAME, packed_attention

_MODELS = ("llama", "qwen2", "qwen3")


def fuse(decoder: Any, device: torch.device) -> bool:
    """Let the layers of a decoder compute by kernels on a device, where they can; whether they do."""
    config, on_cpu = decoder.config, device.type == "cpu"
    available = kernels() is not None if on_cpu else switched_on()
    if not available or config.model_type not in _MODELS or config.hidden_act != "silu":
        return False
    forwards: dict[str, Callable[..., Any]] = {"RMSNorm": _norm, "MLP": _mlp, "Attention": _attention}
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if on_cpu and not Kernels.suit(width):
        del forwards["Attention"]
    # What comes after the layers, and only that, reads their last norm in float32 whatever the precision is.
    for module in (decoder if on_cpu else decoder.layers).modules():
        for ending, forward in forwards.items():
            if type(module).__name__.endswith(ending):
                module.forward = MethodType(forward, module)
    return True


def separate(decoder: Any) -> None:
    """Undo it."""
    for module in decoder.modules():
        if getattr(vars(module).get("forward"), "__func__", None) in (_norm, _mlp, _attention):
            del module.forward


def _norm(self: Any, hidden_states: Tensor) -> Tensor:
    apply = compiled.norm if hidden_states.is_cuda else _Norm.apply
    return apply(hidden_states, self.weight, self.variance_epsilon)


def _mlp(self: Any, x: Tensor) -> Tensor:
    apply = compiled.silu_mul if x.is_cuda else _SiluMul.apply
    return self.down_proj(apply(self.gate_proj(x), self.up_proj(x)))


def _attention(
    self: Any,
    hidden_states: Tensor,
    position_embeddings: tuple[Tensor, Tensor],
    attention_mask: Tensor | None = None,
    past_key_values: Any = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Of packed rows; of others it is the class's own."""
    if past_key_values is not None or "spans" not in kwargs or self.config._attn_implementation != NAME:
        own = type(self).forward
        return own(self, hidden_states, position_embeddings, attention_mask, past_key_values=past_key_values, **kwargs)
    shape = (*hidden_states.shape[:-1], -1, self.head_dim)
    query, key, value = (project(hidden_states).view(shape) for project in (self.q_proj, self.k_proj, self.v_proj))
    if hasattr(self, "q_norm"):
        query, key = self.q_norm(query), self.k_norm(key)
    apply = compiled.rotary if query.is_cuda else _Rotary.apply
    query, key = (apply(one, *position_embeddings) for one in (query, key))
    query, key, value = (one.transpose(1, 2) for one in (query, key, value))
    window = getattr(self, "sliding_window", None)
    mixed, _ = packed_attention(self, query, key, value, None, scaling=self.scaling, sliding_window=window, **kwargs)
    return self.o_proj(mixed.flatten(2)), None


@functools.cache
def _compiled() -> Kernels:
    """Kept, since those who switch kernels off mean networks that are made later."""
    found = kernels()
    assert found is not None
    return found


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        x = x.contiguous()
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return _compiled().add_norm(x, None, Norm(weight, eps))[1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        return *_compiled().norm_backward(x, Norm(weight, ctx.eps), grad.contiguous()), None


class _SiluMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        gate, up = gate.contiguous(), up.contiguous()
        ctx.save_for_backward(gate, up)
        return _compiled().silu_mul(gate, up)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        return _compiled().silu_mul_backward(gate, up, grad.contiguous())


class _Rotary(torch.autograd.Function):
    """Of [1, tokens, heads, width]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        cos, sin = cos[0].contiguous(), sin[0].contiguous()
        ctx.save_for_backward(cos, sin)
        return _compiled().rotary(x[0].contiguous(), cos, sin)[None]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _compiled().rotary(grad[0].contiguous(), cos, sin, inverse=True)[None], None, None
