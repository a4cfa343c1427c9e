"""Process rewards: what a turn costs, and the scale of a batch."""

from __future__ import annotations

import pytest
import torch

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.credit import gae, returns_to_go
from agent_r1_core.learning.process import scaled_rewards, turn_discounts
from agent_r1_core.learning.turns import turn_borders
from agent_r1_core.testing import make_task, make_trajectory, random_group
from agent_r1_core.trajectory import Group

TWO_TURNS = (((1, 2), (3, 4)), ((5,), (6, 7)))


def batch_of(*trajectories) -> Batch:
    return Batch.from_groups([Group(make_task(), list(trajectories))])


def test_what_follows_a_turn_is_discounted_once_however_long_its_actions_are() -> None:
    batch = batch_of(
        make_trajectory(TWO_TURNS, reward=1.0), make_trajectory((((1,), (2,)), ((3,), (4,) * 9)), reward=1.0)
    )
    discounts = turn_discounts(batch.turn, 1.0, 0.5)
    for to_go in (
        returns_to_go(batch.rewards, batch.action_mask, discounts),
        gae(batch.rewards, torch.zeros_like(batch.rewards), batch.action_mask, discounts, 1.0)[0],
    ):
        for row in range(2):
            turn = batch.turn[row][batch.action_mask[row]]
            assert to_go[row][batch.action_mask[row]].tolist() == [0.5 if index == 0 else 1.0 for index in turn]


def test_tokens_and_turns_discount_together() -> None:
    batch = batch_of(make_trajectory(TWO_TURNS, turn_rewards=(8.0, 0.0), reward=64.0))
    found = returns_to_go(batch.rewards, batch.action_mask, turn_discounts(batch.turn, 0.5, 0.25))
    assert found[batch.action_mask].tolist() == [0.5 * (8 + 0.125 * 32), 8 + 0.125 * 32, 32.0, 64.0]


def test_a_bootstrap_lies_behind_the_end_of_its_turn() -> None:
    batch = batch_of(make_trajectory((((1,), (2, 3)),), bootstrap=True))
    zeros, mask = torch.zeros_like(batch.rewards), batch.action_mask
    found, _ = gae(zeros, zeros, mask, turn_discounts(batch.turn, 1.0, 0.5), 1.0, torch.tensor([4.0]))
    assert found[mask].tolist() == [2.0, 2.0]


def test_scaled_process_rewards_have_the_root_mean_square_of_the_option_and_outcomes_stay() -> None:
    batch = Batch.from_groups([random_group(seed, 4) for seed in range(3)])
    outcome = batch.rewards - batch.process_rewards
    scaled = scaled_rewards(batch, 0.3)
    _, last = turn_borders(batch.turn)
    process = (scaled - outcome)[last]
    assert float(process.square().mean().sqrt()) == pytest.approx(0.3, rel=1e-5)
    ratio = process / batch.process_rewards[last]
    torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio), rtol=1e-3, atol=1e-3)
    assert not (scaled - outcome)[~last].any()


def test_turns_without_a_reward_count_in_the_scale() -> None:
    batch = batch_of(make_trajectory(TWO_TURNS, turn_rewards=(0.0, 0.1), reward=1.0), make_trajectory(TWO_TURNS))
    scaled = scaled_rewards(batch, 1.0)
    assert float(scaled[0, 6]) == pytest.approx(1.0 + 2.0)  # one of four turns: 1 / sqrt(1 / 4)
    assert not scaled[1].any()


def test_without_process_rewards_or_without_a_scale_nothing_changes() -> None:
    unpaid, paid = batch_of(make_trajectory(reward=1.0)), batch_of(make_trajectory(turn_rewards=(0.5, 0.0)))
    assert scaled_rewards(unpaid, 3.0) is unpaid.rewards
    assert scaled_rewards(paid, None) is paid.rewards


def test_numbers_outside_the_action_mask_are_not_read() -> None:
    batch, spoilt = (Batch.from_groups([random_group(0, 4)]) for _ in range(2))
    spoilt.process_rewards[~spoilt.action_mask] = 1e3
    assert torch.equal(scaled_rewards(batch, 0.3), scaled_rewards(spoilt, 0.3))
