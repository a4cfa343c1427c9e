"""Micro-batches: whole trajectories, packed into one row without padding, within a budget of tokens.

A trajectory longer than the budget gets a micro-batch of its own: it is never cut. Tokens that trajectories of a group
share from their first id on are computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.prefixes import PrefixForest, Tree


@dataclass(frozen=True)
class Packed:
    """Trajectories end to end."""

    rows: Tensor
    """long [m]: their rows in the batch."""
    ids: Tensor
    """long [tokens]."""
    valid: Tensor
    """bool [m, T]: the rows' tokens; true entries in row-major order are the packed tokens."""
    place: Tensor
    """long [tokens]: where the tree computes each token."""
    tree: Tree
    """What a decoder computes: every token once per prefix."""

    def take(self, values: Tensor, chosen: Tensor) -> Tensor:
        """Flat numbers [k] of a [n, T] tensor of the batch at the chosen packed tokens."""
        return values[self.rows][self.valid][chosen]


def pack(batch: Batch, rows: Sequence[int], share: bool = True) -> Packed:
    """Put trajectories end to end, in the order of `rows`; with `share`, tokens of equal prefixes within a group are
    computed once."""
    forest = PrefixForest(share)
    for row in rows:
        _add(forest, batch, row)
    return _packed(forest, batch, rows)


def micro_batches(batch: Batch, rows: Iterable[int], max_tokens: int, share: bool = True) -> Iterator[Packed]:
    """Cut rows, those of a group together, into runs of at most `max_tokens` computed tokens; a longer trajectory
    stands alone."""
    forest, taken = PrefixForest(share), list[int]()
    for row in sorted(rows, key=lambda row: int(batch.group[row])):
        cost = forest.cost(_segments(batch, row), int(batch.group[row]))
        if taken and forest.tokens + cost > max_tokens:
            yield _packed(forest, batch, taken)
            forest, taken = PrefixForest(share), []
        _add(forest, batch, row)
        taken.append(row)
    if taken:
        yield _packed(forest, batch, taken)


def _packed(forest: PrefixForest, batch: Batch, rows: Sequence[int]) -> Packed:
    index = torch.tensor(rows, dtype=torch.long)
    valid = batch.valid[index]
    tree, place = forest.build()
    return Packed(index, batch.ids[index][valid], valid, place, tree)


def _add(forest: PrefixForest, batch: Batch, row: int) -> None:
    for ids in _segments(batch, row):
        forest.add(ids, int(batch.group[row]))


def _segments(batch: Batch, row: int) -> list[list[int]]:
    return [segment.ids for segment in batch.trajectories[row].segments if segment.ids]
