"""Process rewards: what a turn costs, and the scale of a batch."""

from __future__ import annotations

import pytest
import torch
from batches import batch_of

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.credit import gae, returns_to_go
from agent_r1_core.learning.process import scaled_rewards, turn_discounts
from agent_r1_core.testing import make_trajectory, random_group

TWO_TURNS = (((1, 2), (3, 4)), ((5,), (6, 7)))


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
