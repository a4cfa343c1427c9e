"""Attention for packed prefix trees: each span sees the spans above it and itself, without a [tokens, tokens] mask.

It is registered with transformers under the name `agent_r1_packed`. Without spans (an ordinary forward pass of the same
model) it is transformers' own `sdpa`.

On CUDA one kernel computes a whole tree, where it can be compiled: FlexAttention (arXiv 2412.05496) with a block mask.
A kernel for each span and layer would take longer to launch than to compute. Spans are numbered depth first, so that
whatever goes on from a span follows it without a gap: the queries of one interval see a key, from its own place to the
end of the last span below its own. Blocks of tokens outside all intervals are never computed. The compiler makes
kernels for all numbers of tokens at once, except where a size is 1 or equals another one by chance; so a tree is filled
up to whole blocks, two at least.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import pad, scaled_dot_product_attention
from torch.utils._python_dispatch import is_in_torch_dispatch_mode
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from agent_r1_core.devices import on_device
from agent_r1_core.learning.packing import Span, Tree

NAME = "agent_r1_packed"
_BLOCK = 256
"""Queries that are looked at together where a mask is needed."""
_KEPT = 32
"""Plain products keep their weights for the backward pass: at most so many times what a query takes."""
BLOCK = 128
"""Tokens of a block, which the kernel computes or leaves out as a whole."""
_CASES = 64
"""For which the kernel may be compiled."""
_NARROWEST = 16
"""Width of a head that the kernel needs."""

Visible = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""A mask of FlexAttention: batch, head, query, key -> bool."""

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
    """The plain formula; query heads that share a key head are folded into rows. Torch's softmax computes in
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


class TreeMask:
    """A tree on a device, and who sees whom in it.

    Args:
        blocks: the tree is filled up to so many blocks at least.
    """

    def __init__(self, tree: Tree, device: torch.device, blocks: int = 2) -> None:
        tree = filled(tree, blocks)
        self._ends, self._positions, self._device = subtree_ends(tree), tree.positions, device
        self._on_device = on_device(self._ends, device), on_device(tree.positions, device)
        self._blocks: dict[int | None, BlockMask] = {}
        self.tree = replace(tree, ids=on_device(tree.ids, device), positions=self._on_device[1])
        """The tree, filled up: its last tokens may belong to no sequence."""

    def visible(self, window: int | None = None) -> Visible:
        """Whether a query sees a key: the key comes before it or is its own, in a span that its own span is or goes
        on from, and fewer than `window` positions back."""
        ends, positions = self._on_device

        def seen(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return (key <= query) & (query < ends[key])

        if window is None:
            return seen
        within: int = window

        def seen_near(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return seen(batch, head, query, key) & (positions[query] - positions[key] < within)

        return seen_near

    def blocks(self, window: int | None = None) -> BlockMask:
        """The mask by blocks; made once for all layers with the same window."""
        if window not in self._blocks:
            partial, full = block_pairs(self._ends, self._positions, window)
            counts, listed, full_counts, full_listed = (
                on_device(part, self._device) for part in (*_listed(partial), *_listed(full))
            )
            self._blocks[window] = BlockMask.from_kv_blocks(
                counts,
                listed,
                full_counts,
                full_listed,
                BLOCK_SIZE=BLOCK,
                mask_mod=self.visible(window),
                seq_lengths=(len(self._ends), len(self._ends)),
            )
        return self._blocks[window]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, window: int | None, scale: float) -> Tensor:
        """Attention of all tokens of the tree, [1, heads, tokens, width] each; keys and values may have fewer heads. On
        CUDA it is compiled."""
        grouped, width = key.shape[1] != query.shape[1], value.shape[-1]
        kernel = _compiled() if query.is_cuda else flex_attention
        with torch.autocast(query.device.type, enabled=False):
            out: Tensor = kernel(
                *(_wide_enough(part) for part in (query, key, value)),
                block_mask=self.blocks(window),
                scale=scale,
                enable_gqa=grouped,
            )
        return out[..., :width]


def filled(tree: Tree, blocks: int) -> Tree:
    """The tree with one more sequence, without a meaning, that makes its tokens fill whole blocks, `blocks` of them at
    least. All its positions are 0, which every model has."""
    tokens = len(tree.ids)
    missing = max(blocks * BLOCK, -(-tokens // BLOCK) * BLOCK) - tokens
    if not missing:
        return tree
    positions = torch.cat([tree.positions, tree.positions.new_zeros(missing)])
    return Tree(pad(tree.ids, (0, missing)), positions, (*tree.spans, Span(missing, ())))


def subtree_ends(tree: Tree) -> Tensor:
    """long [tokens], on the CPU: the place after the last token that goes on from each token's span."""
    lengths = torch.tensor([span.length for span in tree.spans], dtype=torch.long)
    ends = lengths.cumsum(0).tolist()
    for number in range(len(tree.spans) - 1, -1, -1):
        for parent in tree.spans[number].above[-1:]:
            ends[parent] = max(ends[parent], ends[number])
    return torch.tensor(ends, dtype=torch.long).repeat_interleave(lengths)


def block_pairs(ends: Tensor, positions: Tensor, window: int | None) -> tuple[Tensor, Tensor]:
    """Pairs of blocks, bool [blocks, blocks] by query and key: those of which the kernel asks who sees whom, and those
    in which every query sees every key. In all others nobody sees anybody.

    Args:
        ends: long [tokens], as `subtree_ends` gives them, of whole blocks.
        positions: long [tokens].
    """
    ends, positions = ends.view(-1, BLOCK), positions.view(-1, BLOCK)
    first = torch.arange(len(ends)) * BLOCK
    some = (first[:, None] >= first) & (ends.amax(1) > first[:, None])
    full = (first[:, None] > first) & (ends.amin(1) >= first[:, None] + BLOCK)
    if window is not None:
        low, high = positions.amin(1), positions.amax(1)
        some, full = some & (low[:, None] - high < window), full & (high[:, None] - low < window)
    return some & ~full, full


def _listed(pairs: Tensor) -> tuple[Tensor, Tensor]:
    """The chosen key blocks of each query block, as BlockMask has them: int [1, 1, blocks] how many, and int
    [1, 1, blocks, blocks] which, these first."""
    order = pairs.int().argsort(dim=1, descending=True, stable=True)
    return pairs.sum(1).int()[None, None], order.int()[None, None]


def _wide_enough(part: Tensor) -> Tensor:
    """Zeros on the right change no product."""
    return pad(part, (0, _NARROWEST - part.shape[-1])) if part.shape[-1] < _NARROWEST else part


def _compiled() -> Any:
    """What selective recomputation must see is compiled apart, since that needs a newer torch."""
    return _kernel(seen=is_in_torch_dispatch_mode())


@functools.cache
def _kernel(seen: bool) -> Any:
    """Whole, so that what cannot be compiled is an error: uncompiled it would make [tokens, tokens] in silence.

    Frozen and learning weights, adapters, critics and precisions are cases of their own, more than torch's eight.
    """
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, _CASES)
    options: dict[str, Any] | None = {"wrap_inductor_compiled_regions": True} if seen else None
    return torch.compile(flex_attention, dynamic=True, fullgraph=True, options=options)


AttentionInterface.register(NAME, packed_attention)
AttentionMaskInterface.register(NAME, lambda *args, **kwargs: None if _packed.get() else sdpa_mask(*args, **kwargs))
