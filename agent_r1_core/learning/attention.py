"""Attention for packed prefix trees: each span sees the spans above it and itself, without a [tokens, tokens] mask.

On CUDA one kernel computes a whole tree (flex.py), where it can be compiled: a kernel for each span and layer would
spend more time on being launched than on computing.

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

from agent_r1_core.learning.flex import TreeMask
from agent_r1_core.learning.packing import Span

NAME = "agent_r1_packed"
_BLOCK = 256
"""Queries that are looked at together where a mask is needed."""
_KEPT = 32
"""Plain products keep their weights for the backward pass: at most so many times what a query takes."""
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
    tree_mask: TreeMask | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Causal attention along every path of the tree. Query [1, heads, tokens, width]; spans are plain data, so that
    they reach every layer as a keyword without a device transfer. With a mask one kernel computes the whole tree, else
    one computes each span."""
    if spans is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, sliding_window=sliding_window, **kwargs
        )
    kind = query.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else query.dtype
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if tree_mask is not None:
        whole = tree_mask.attend(query.to(dtype), key.to(dtype), value.to(dtype), sliding_window, scale)
        return whole.transpose(1, 2).contiguous(), None
    query = query * scale
    lengths = [span.length for span in spans]
    queries, keys, values = (part.to(dtype).split(lengths, 2) for part in (query, key, value))
    out = []
    for number, span in enumerate(spans):
        seen = (*span.above, number)
        k, v = (torch.cat([part[one] for one in seen], 2) for part in (keys, values))
        out.append(_attend(queries[number], k, v, sliding_window))
    return torch.cat(out, 2).transpose(1, 2).contiguous(), None


def _attend(query: Tensor, key: Tensor, value: Tensor, window: int | None) -> Tensor:
    """Queries are pre-scaled and occupy the last key positions."""
    new, places = query.shape[2], key.shape[2]
    attend = _products if _products_win(query, places) else _fused
    if attend is _fused and new == places and (window is None or places <= window):
        return _fused(query, key, value, None)
    out = []
    for start in range(0, new, _BLOCK):  # a block of queries needs no key after its own last place
        block = query[:, :, start : start + _BLOCK]
        seen = places - new + start + block.shape[2]
        visible = _visible(block.shape[2], seen, window, query.device)
        out.append(attend(block, key[:, :, :seen], value[:, :, :seen], visible))
    return torch.cat(out, 2) if len(out) > 1 else out[0]


def _products_win(query: Tensor, places: int) -> bool:
    """Whether plain products are faster than torch's fused attention, at a price in memory that can be paid: on a CPU
    in bfloat16."""
    return query.device.type == "cpu" and query.dtype == torch.bfloat16 and places <= _KEPT * query.shape[-1]


def _products(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> Tensor:
    """The formula as it stands; query heads that share a key head are folded into rows. Torch's softmax computes in
    float32 also where it reads and writes bfloat16."""
    _, heads, new, width = query.shape
    groups = heads // key.shape[1]
    folded = query.reshape(key.shape[1], groups * new, width)
    bias = torch.zeros(visible.shape, dtype=query.dtype, device=query.device).masked_fill_(~visible, float("-inf"))
    weights = torch.baddbmm(bias.repeat(groups, 1), folded, key[0].transpose(1, 2)).softmax(-1)
    return (weights @ value[0]).view(1, heads, new, value.shape[-1])


def _fused(query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None) -> Tensor:
    """Torch's own kernels; causal where nothing says what is visible."""
    groups = query.shape[1] // key.shape[1]
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    return scaled_dot_product_attention(query, key, value, visible, is_causal=visible is None, scale=1.0)


def _visible(new: int, places: int, window: int | None, device: torch.device) -> Tensor:
    """bool [new, places]: whether the query at place `places - new + i` may see place j."""
    distance = torch.arange(places - new, places, device=device)[:, None] - torch.arange(places, device=device)
    return distance >= 0 if window is None else (distance >= 0) & (distance < window)


def _mask(*args: Any, **kwargs: Any) -> Tensor | None:
    return None if _packed.get() else sdpa_mask(*args, **kwargs)


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, _mask)
