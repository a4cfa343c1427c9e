"""Norms, activations and rotary embeddings on a GPU: torch's compiler makes one kernel of each, and of its gradient.

Under autocast the results come in its precision, in which the matrix products that read them compute: otherwise each of
the products would convert them anew. All numbers between are float32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from agent_r1_core.kernels.functions import Norm

_CASES = 64
"""For which a function may be compiled: widths, precisions, with and without gradient."""


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Root mean square norm (arXiv 1910.07467) over the last dimension."""
    return _call(_norm(eps, _kind(x)), x.flatten(0, -2), weight).view(x.shape)


def add_norm(x: Tensor, added: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """x + added, and its norm."""
    total, normed = _call(_add_norm(eps), x.flatten(0, -2), added.flatten(0, -2), weight)
    return total.view(x.shape), normed.view(x.shape)


def silu_mul(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) * up (arXiv 2002.05202)."""
    return _call(_silu_mul(_kind(gate)), gate.flatten(0, -2), up.flatten(0, -2)).view(gate.shape)


def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding in the half-split layout of transformers (arXiv 2104.09864) of [1, tokens, heads, width], with
    cosines and sines [1, tokens, width]."""
    return _call(_rotary(_kind(x)), x[0], cos[0], sin[0])[None]


def _kind(x: Tensor) -> torch.dtype:
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def _call(function: Callable[..., Any], *given: Tensor) -> Any:
    """Compiled once for all numbers of tokens, which come first in all but weights."""
    for tensor in given:
        if tensor.dim() > 1:
            torch._dynamo.maybe_mark_dynamic(tensor, 0)
    with torch.autocast(given[0].device.type, enabled=False):
        return function(*given)


def _compile(function: Callable[..., Any]) -> Any:
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, _CASES)
    return torch.compile(function, fullgraph=True)


def _normed(wide: Tensor, weight: Tensor, eps: float) -> Tensor:
    return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps))


@functools.cache
def _norm(eps: float, kind: torch.dtype) -> Any:
    def formula(x: Tensor, weight: Tensor) -> Tensor:
        return _normed(x.float(), weight, eps).to(kind)

    return _compile(formula)


@functools.cache
def _add_norm(eps: float) -> Any:
    def formula(x: Tensor, added: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        wide = x.float() + added.float()
        return wide.to(x.dtype), _normed(wide, weight, eps).to(x.dtype)

    return _compile(formula)


@functools.cache
def _silu_mul(kind: torch.dtype) -> Any:
    def formula(gate: Tensor, up: Tensor) -> Tensor:
        return (F.silu(gate.float()) * up.float()).to(kind)

    return _compile(formula)


@functools.cache
def _rotary(kind: torch.dtype) -> Any:
    def formula(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        wide, half = x.float(), x.shape[-1] // 2
        turned = torch.cat((-wide[..., half:], wide[..., :half]), -1)
        return (wide * cos[:, None] + turned * sin[:, None]).to(kind)

    return _compile(formula)


class Compiled:
    """What a decoder computes by on a GPU, as it does by `Kernels` on a CPU."""

    def add_norm(self, x: Tensor, added: Tensor | None, how: Norm) -> tuple[Tensor, Tensor]:
        """x + added, and its norm."""
        return (x, norm(x, *how)) if added is None else add_norm(x, added, *how)

    def silu_mul(self, gate: Tensor, up: Tensor) -> Tensor:
        """silu(gate) * up."""
        return silu_mul(gate, up)

    def turned(self, x: Tensor, how: Norm | None, cos: Tensor, sin: Tensor) -> Tensor:
        """Queries or keys [rows, new, heads, width] after their norm, if they have one, and the rotary embedding by
        cosines and sines [rows, new, 1, width]."""
        x = x if how is None else norm(x, *how)
        return rotary(x.flatten(0, 1)[None], cos.flatten(0, 2)[None], sin.flatten(0, 2)[None]).view(x.shape)

    def attend(
        self,
        mixed: Tensor,
        heads: int,
        norms: tuple[Norm, Norm] | None,
        tables: tuple[Tensor, Tensor],
        positions: Tensor,
        keys: Tensor,
        values: Tensor,
        trunk: int,
    ) -> Tensor:
        """As `Kernels.attend`, in any dtype; each row reads the common places by itself."""
        from agent_r1_core.kernels.decoding import attend  # Triton comes with a torch for GPUs

        return attend(mixed, heads, norms, tables, positions, keys, values)
