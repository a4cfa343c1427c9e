"""Attention along a packed prefix tree in one kernel: FlexAttention (arXiv 2412.05496) with a block mask, on CUDA.

Spans are numbered depth first, so whatever goes on from a span follows it without a gap. A key is therefore seen by
the queries of one interval: from its own place to the end of the last span below its own. Blocks of tokens outside all
intervals are never computed, and which these are follows from the ends of the intervals: nothing of the size
[tokens, tokens] is ever made.

The compiler makes kernels for all numbers of tokens at once, except where a size is 1, or equals another one by
chance; so a tree is filled up to whole blocks, two at least.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import pad

from agent_r1_core.learning.packing import Span, Tree

BLOCK = 128
"""Tokens of a block, which the kernel computes or leaves out as a whole."""
_NARROWEST = 16
"""Width of a head that the kernel needs."""

Visible = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""A mask of FlexAttention: batch, head, query, key -> bool."""


class TreeMask:
    """A tree on a device, and who sees whom in it.

    Args:
        blocks: the tree is filled up to so many blocks at least.
    """

    def __init__(self, tree: Tree, device: torch.device, blocks: int = 2) -> None:
        tree = filled(tree, blocks)
        self._ends, self._positions, self._device = subtree_ends(tree), tree.positions, device
        self._on_device = self._ends.to(device), tree.positions.to(device)
        self._blocks: dict[int | None, BlockMask] = {}
        self.tree = replace(tree, ids=tree.ids.to(device), positions=self._on_device[1])
        """The tree, filled up: its last tokens may belong to no sequence."""

    def visible(self, window: int | None = None) -> Visible:
        """Whether a query sees a key: the key stands before it or at its place, in a span that its own span is or goes
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
            mask = BlockMask.from_kv_blocks(
                *_listed(partial),
                *_listed(full),
                BLOCK_SIZE=BLOCK,
                mask_mod=self.visible(window),
                seq_lengths=(len(self._ends), len(self._ends)),
            )
            self._blocks[window] = mask.to(self._device)
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


@functools.cache
def _compiled() -> Any:
    """Whole, so that what cannot be compiled is an error: uncompiled it would make [tokens, tokens] in silence."""
    return torch.compile(flex_attention, dynamic=True, fullgraph=True)
