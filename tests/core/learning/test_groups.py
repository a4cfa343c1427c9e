"""Edges of groups, and rewards that are compared each by itself; LAW 7 and tests/yardstick have the others."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pytest
import torch

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.groups import (
    anchor_groups,
    decoupled_advantage,
    group_mean_advantage,
    group_normalised_advantage,
    leave_one_out_advantage,
)
from agent_r1_core.testing import make_task, make_trajectory
from agent_r1_core.trajectory import Group


def test_no_trajectories_no_advantages_and_no_anchors() -> None:
    assert anchor_groups(Batch.from_groups([])).shape == (0, 0)
    assert group_mean_advantage(torch.zeros(0), torch.zeros(0, dtype=torch.long)).shape == (0,)


def test_of_two_each_is_compared_with_the_other() -> None:
    pair = torch.tensor([1.0, 0.25]), torch.zeros(2, dtype=torch.long)
    assert leave_one_out_advantage(*pair).tolist() == [0.75, -0.75]


def test_each_reward_is_normalised_by_itself_whoever_has_it_and_what_is_left_of_the_return_too() -> None:
    """Whole numbers that single precision cannot hold do not drown the others."""
    large, steps, rest = [1e8 + 1, 0.0, 0.0], [0.75, 0.0, 0.5], [0.0, 0.3, 0.0]
    played = [
        make_trajectory(turn_rewards=(0.25, 0.5), reward=2 * large[0], rewards={"large": large[0]}),
        make_trajectory(sample=1, reward=rest[1]),
        make_trajectory(sample=2, turn_rewards=(0.5, 0.0), rewards={"large": 0.0}),
    ]
    for one in (played[0], played[2]):
        for turn in one.turns:
            turn.rewards = {"step": turn.reward}
    batch = Batch.from_groups([Group(make_task(), played)], {"large": 2.0})
    found = decoupled_advantage(batch, lambda returns, group: group_normalised_advantage(returns, group, 0.0))

    def normalised(values: Sequence[float]) -> list[float]:
        return [(value - statistics.fmean(values)) / statistics.stdev(values) for value in values]

    sums = [2 * a + b + c for a, b, c in zip(normalised(large), normalised(steps), normalised(rest), strict=True)]
    assert found.tolist() == pytest.approx(normalised(sums), abs=1e-5)


def test_a_turn_without_action_tokens_has_no_anchor() -> None:
    empty = make_trajectory((((1,), ()), ((2,), (3,))), state_keys=("s", "t"))
    assert anchor_groups(Batch.from_groups([Group(make_task(), [empty])])).tolist() == [[-1, -1, 0]]
