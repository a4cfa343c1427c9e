"""Attention for packed rows: each segment attends to itself alone, without a [tokens, tokens] mask.

Registered with transformers under the name `agent_r1_packed`. Without boundaries (an ordinary forward pass of the same
model) it is transformers' own `sdpa`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

NAME = "agent_r1_packed"
_packed: ContextVar[bool] = ContextVar("agent_r1_packed", default=False)


@contextmanager
def packed_forward() -> Iterator[None]:
    """Within it, models with this attention build no mask: boundaries say who sees whom."""
    token = _packed.set(True)
    try:
        yield
    finally:
        _packed.reset(token)


def packed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    segment_boundaries: list[int] | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Causal attention inside every segment. Query [1, heads, tokens, width]; boundaries are plain integers, so that
    they reach every layer as a keyword without a device transfer."""
    if segment_boundaries is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, sliding_window=sliding_window, **kwargs
        )
    groups = query.shape[1] // key.shape[1]
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    lengths = [stop - start for start, stop in pairwise(segment_boundaries)]
    parts = zip(query.split(lengths, 2), key.split(lengths, 2), value.split(lengths, 2), strict=True)
    out = [_attend(q, k, v, scaling, sliding_window) for q, k, v in parts]
    return torch.cat(out, 2).transpose(1, 2).contiguous(), None


def _attend(query: Tensor, key: Tensor, value: Tensor, scaling: float | None, window: int | None) -> Tensor:
    length = query.shape[2]
    if window is None or length <= window:
        return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling)
    at = torch.arange(length, device=query.device)
    distance = at[:, None] - at[None, :]
    near = (distance >= 0) & (distance < window)
    return scaled_dot_product_attention(query, key, value, attn_mask=near, scale=scaling)


def _mask(*args: Any, **kwargs: Any) -> Tensor | None:
    return None if _packed.get() else sdpa_mask(*args, **kwargs)


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, _mask)
