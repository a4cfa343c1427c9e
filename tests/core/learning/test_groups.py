"""Empty batches and empty turns; LAW 7 and tests/yardstick have the others."""

from __future__ import annotations

import torch

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.groups import anchor_groups, group_mean_advantage
from agent_r1_core.testing import make_task, make_trajectory
from agent_r1_core.trajectory import Group


def test_no_trajectories_no_advantages_and_no_anchors() -> None:
    assert anchor_groups(Batch.from_groups([])).shape == (0, 0)
    assert group_mean_advantage(torch.zeros(0), torch.zeros(0, dtype=torch.long)).shape == (0,)


def test_a_turn_without_action_tokens_has_no_anchor() -> None:
    empty = make_trajectory((((1,), ()), ((2,), (3,))), state_keys=("s", "t"))
    assert anchor_groups(Batch.from_groups([Group(make_task(), [empty])])).tolist() == [[-1, -1, 0]]
