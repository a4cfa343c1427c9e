"""Attention for packed prefix trees: each span sees the spans above it and itself, without a [tokens, tokens] mask.

Registered with transformers under the name `agent_r1_packed`. Without spans (an ordinary forward pass of the same
model) it is transformers' own `sdpa`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from agent_r1_core.learning.prefixes import Span

NAME = "agent_r1_packed"
_SMALL = 2**18
"""Scores of a span on a CPU in bfloat16, below which plain products are faster than torch's fused backward pass."""
_BLOCK = 256
"""Queries that are looked at together where a mask is needed."""
_packed: ContextVar[bool] = ContextVar("agent_r1_packed", default=False)


@contextmanager
def packed_forward() -> Iterator[None]:
    """Within it, models with this attention build no mask: spans say who sees whom."""
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
    spans: Sequence[Span] | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Causal attention along every path of the tree. Query [1, heads, tokens, width]; spans are plain data, so that
    they reach every layer as a keyword without a device transfer."""
    if spans is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, sliding_window=sliding_window, **kwargs
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    lengths = [span.length for span in spans]
    queries, keys, values = query.split(lengths, 2), key.split(lengths, 2), value.split(lengths, 2)
    out = []
    for number, span in enumerate(spans):
        seen = (*span.above, number)
        k, v = (torch.cat([part[one] for one in seen], 2) for part in (keys, values))
        out.append(_attend(queries[number], k, v, scale, sliding_window))
    return torch.cat(out, 2).transpose(1, 2).contiguous(), None


def _attend(query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
    """The queries are the last of the keys' places."""
    new, places = query.shape[2], key.shape[2]
    if new == places and (window is None or places <= window) and not _products_win(query, places):
        groups = query.shape[1] // key.shape[1]
        key, value = repeat_kv(key, groups), repeat_kv(value, groups)
        return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale)
    out = []
    for start in range(0, new, _BLOCK):  # a block of queries needs no key after its own last place
        block = query[:, :, start : start + _BLOCK]
        seen = places - new + start + block.shape[2]
        out.append(_attend_masked(block, key[:, :, :seen], value[:, :, :seen], scale, window))
    return torch.cat(out, 2) if len(out) > 1 else out[0]


def _attend_masked(query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
    if _products_win(query, key.shape[2]):
        return _products(query, key, value, scale, window)
    groups = query.shape[1] // key.shape[1]
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    mask = _visible(query.shape[2], key.shape[2], window, query.device)
    return scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)


def _products_win(query: Tensor, places: int) -> bool:
    """Whether plain products are faster than torch's fused attention: on a CPU in bfloat16, where spans are short."""
    return query.device.type == "cpu" and query.shape[2] * places <= _SMALL and _in_bfloat16(query)


def _products(query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
    """The formula as it stands, the softmax in float32; query heads that share a key head are folded into rows."""
    _, heads, new, width = query.shape
    groups = heads // key.shape[1]
    folded = query.reshape(key.shape[1], groups * new, width)
    scores = (folded @ key[0].transpose(1, 2)).float() * scale
    hidden = ~_visible(new, key.shape[2], window, query.device).repeat(groups, 1)
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1).to(value.dtype)
    return (weights @ value[0]).view(1, heads, new, value.shape[-1])


def _in_bfloat16(query: Tensor) -> bool:
    """Whether products of it are computed in bfloat16."""
    return query.dtype == torch.bfloat16 or torch.is_autocast_enabled("cpu")


def _visible(new: int, places: int, window: int | None, device: torch.device) -> Tensor:
    """bool [new, places]: whether the query at place `places - new + i` may see place j."""
    distance = torch.arange(places - new, places, device=device)[:, None] - torch.arange(places, device=device)
    return distance >= 0 if window is None else (distance >= 0) & (distance < window)


def _mask(*args: Any, **kwargs: Any) -> Tensor | None:
    return None if _packed.get() else sdpa_mask(*args, **kwargs)


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, _mask)
