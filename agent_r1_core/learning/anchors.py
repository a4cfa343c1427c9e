"""Anchor groups: the turns of a group's trajectories that began in the same state, so that their actions compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from agent_r1_core.learning.turns import turn_borders

if TYPE_CHECKING:
    from agent_r1_core.learning.batch import Batch


def anchor_groups(batch: Batch) -> Tensor:
    """At the first action token of each turn with a `state_key`, the number of its anchor group, else -1; long [n, T].

    An anchor group is the turns of one group whose state has the same name, those of one trajectory that came back to
    it included (GiGPO, arXiv 2505.10978). Groups never share one: their tasks differ (LAW 7).
    """
    numbers: dict[tuple[int, str], int] = {}
    anchors = torch.full(batch.turn.shape, -1, dtype=torch.long)
    first, _ = turn_borders(batch.turn)
    for row, column in first.nonzero().tolist():
        key = _state_key(batch, row, int(batch.turn[row, column]))
        if key is not None:
            group = int(batch.group[row])
            anchors[row, column] = numbers.setdefault((group, key), len(numbers))
    return anchors


def _state_key(batch: Batch, row: int, index: int) -> str | None:
    return next(turn.state_key for turn in batch.trajectories[row].turns if turn.index == index)
