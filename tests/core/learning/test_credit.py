"""Edges of credit along a trajectory, per turn, within a group and by scale; tests/yardstick compares the formulas."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import pytest
import torch
from batches import batch_of

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.credit import gae, kl_in_reward, lam_of_length
from agent_r1_core.learning.groups import (
    anchor_groups,
    decoupled_advantage,
    group_mean_advantage,
    group_normalised_advantage,
    leave_one_out_advantage,
)
from agent_r1_core.learning.masking import explained_variance, whiten
from agent_r1_core.learning.process import scaled_rewards
from agent_r1_core.learning.turns import sum_per_turn, turn_level_gae, turn_returns_to_go
from agent_r1_core.testing import make_task, make_trajectory, random_group
from agent_r1_core.trajectory import Group


def test_where_nothing_was_done_there_is_no_credit() -> None:
    """No tokens, no actions, no turns, or no trajectories; a turn without action tokens has no anchor."""
    for shape in ((0, 0), (0, 3), (2, 0), (2, 3)):
        numbers, mask, turn = torch.ones(shape), torch.zeros(shape, dtype=torch.bool), torch.full(shape, -1)
        assert turn_returns_to_go(numbers, turn, 1.0).shape == shape
        by_turn = turn_level_gae(numbers, numbers, turn, 1.0, 1.0, 1.0, 1.0)
        for found in (*by_turn, gae(numbers, numbers, mask, 1.0, 1.0)[0]):
            assert found.shape == shape
            assert not found.any()
    assert anchor_groups(Batch.from_groups([])).shape == (0, 0)
    assert group_mean_advantage(torch.zeros(0), torch.zeros(0, dtype=torch.long)).shape == (0,)
    empty = make_trajectory((((1,), ()), ((2,), (3,))), state_keys=("s", "t"))
    assert anchor_groups(Batch.from_groups([Group(make_task(), [empty])])).tolist() == [[-1, -1, 0]]


def test_whitening_equal_numbers_gives_exact_zeros_and_leaves_a_tiny_spread_tiny() -> None:
    """Rounding noise must not be blown up to advantages of one. Of 1e-4 the variance is 5e-9, less than what is added
    to it."""
    mask = torch.ones(1, 3, dtype=torch.bool)
    assert not whiten(torch.full((1, 3), 0.1), mask).any()
    assert not whiten(torch.tensor([[0.3, 0.3 + 3e-8, 0.3]]), mask).any(), "rounding, and no spread"
    assert not whiten(torch.full((1, 1), 5.0), mask[:, :1]).any()
    assert whiten(torch.full((1, 3), math.nan), mask).isnan().all(), "what is no number is no zero"
    found = whiten(torch.tensor([[0.0, 1e-4]]), mask[:, :2])
    assert found.tolist() == [pytest.approx([-5e-5 / 1.5e-8**0.5, 5e-5 / 1.5e-8**0.5])]


def test_explained_variance_of_a_perfect_and_of_a_constant_critic_and_lambdas_by_length() -> None:
    mask = torch.ones(1, 4, dtype=torch.bool)
    targets = torch.tensor([[0.0, 1.0, 0.0, 1.0]])
    assert explained_variance(targets, targets, mask) == 1.0
    assert explained_variance(torch.zeros(1, 4), targets, mask) == 0.0
    assert explained_variance(targets, torch.ones(1, 4), mask) == 0.0
    assert explained_variance(targets, 1 + 1e-7 * targets, mask) == 0.0, "rounding, and no spread"
    mask = torch.tensor([[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=torch.bool)
    torch.testing.assert_close(lam_of_length(mask, 1.25), torch.tensor([0.2, 0.2, 0.6, 1 - 1 / 3.75]))
    assert lam_of_length(mask, 0.5).tolist() == [0.0, 0.0, 0.0, pytest.approx(1 / 3)], "never below 0"


def test_kl_in_the_reward_needs_both_policies_and_a_scale_process_rewards() -> None:
    batch = Batch.from_groups([random_group(0, 2)])
    assert kl_in_reward(batch, 0.0) is batch.rewards
    with pytest.raises(ValueError, match="needs_old_logprobs"):
        kl_in_reward(batch, 0.1)
    batch.old_logprobs = torch.full(batch.ids.shape, -1.0)
    with pytest.raises(ValueError, match="needs_old_logprobs"):
        kl_in_reward(batch, 0.1)
    batch.reference_logprobs = torch.full(batch.ids.shape, -3.0)
    expected = batch.rewards - 0.1 * 2.0 * batch.action_mask
    torch.testing.assert_close(kl_in_reward(batch, 0.1), expected)
    unpaid, paid = batch_of(make_trajectory(reward=1.0)), batch_of(make_trajectory(turn_rewards=(0.5, 0.0)))
    assert scaled_rewards(unpaid, 3.0) is unpaid.rewards
    assert scaled_rewards(paid, None) is paid.rewards


def test_a_sum_per_turn_may_be_of_more_episodes_than_tokens_and_of_two_each_is_compared_with_the_other() -> None:
    turn = torch.tensor([[0, -1], [0, 0], [-1, 0]])
    sums = sum_per_turn(torch.ones(3, 2), turn, torch.ones(3, 2, dtype=torch.bool))
    assert sums.tolist() == [[1, 0], [2, 2], [0, 1]]
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
