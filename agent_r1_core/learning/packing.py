"""Micro-batches: whole trajectories, packed into one row without padding, within a budget of tokens.

A trajectory longer than the budget gets a micro-batch of its own: it is never cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agent_r1_core.learning.batch import Batch


@dataclass(frozen=True)
class Packed:
    """Trajectories end to end."""

    rows: Tensor
    """long [m]: their rows in the batch."""
    ids: Tensor
    """long [tokens]."""
    positions: Tensor
    """long [tokens]: 0, 1, 2, ... within each segment."""
    boundaries: list[int]
    """Segment s is `ids[boundaries[s]:boundaries[s + 1]]`."""
    valid: Tensor
    """bool [m, T]: the rows' tokens; true entries in row-major order are the packed tokens."""

    def take(self, values: Tensor, chosen: Tensor) -> Tensor:
        """Flat numbers [k] of a [n, T] tensor of the batch at the chosen packed tokens."""
        return values[self.rows][self.valid][chosen]

    def to(self, device: torch.device) -> Packed:
        """The same with ids and positions on a device."""
        if self.ids.device == device:
            return self
        return Packed(self.rows, self.ids.to(device), self.positions.to(device), self.boundaries, self.valid)


def pack(batch: Batch, rows: Sequence[int]) -> Packed:
    """Put trajectories end to end, in the order of `rows`."""
    index = torch.tensor(rows, dtype=torch.long)
    lengths = [length for row in rows for length in batch.segment_lengths(row)]
    boundaries = [0]
    for length in lengths:
        boundaries.append(boundaries[-1] + length)
    positions = torch.cat([torch.arange(length) for length in lengths]) if lengths else index.new_zeros(0)
    valid = batch.valid[index]
    return Packed(index, batch.ids[index][valid], positions, boundaries, valid)


def micro_batches(batch: Batch, rows: Iterable[int], max_tokens: int) -> list[list[int]]:
    """Cut rows, in their order, into runs of at most `max_tokens` tokens (a longer trajectory stands alone)."""
    out: list[list[int]] = []
    room = 0
    for row in rows:
        tokens = batch.trajectories[row].tokens
        if not out or tokens > room:
            out.append([])
            room = max_tokens
        out[-1].append(row)
        room -= tokens
    return out
