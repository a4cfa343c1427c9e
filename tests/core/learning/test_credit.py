"""Credit along a trajectory against naive loops over the action tokens alone."""

from __future__ import annotations

import math
import random

import pytest
import torch

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.credit import gae, kl_in_reward, returns_to_go
from agent_r1_core.learning.masking import compact, explained_variance, masked_mean, whiten
from agent_r1_core.testing import random_group


def naive_gae(rewards, values, mask, gamma, lam, bootstrap):
    """Row by row, token by token, as the formula says."""
    advantages = [[0.0] * len(row) for row in rewards]
    for i, row in enumerate(rewards):
        at = [t for t in range(len(row)) if mask[i][t]]
        following, following_value = 0.0, bootstrap[i]
        for t in reversed(at):
            delta = row[t] + gamma * following_value - values[i][t]
            following = delta + gamma * lam * following
            following_value = values[i][t]
            advantages[i][t] = following
    return torch.tensor(advantages)


def a_batch(seed: int):
    generator = torch.Generator().manual_seed(seed)
    rewards = torch.randn(5, 17, generator=generator)
    values = torch.randn(5, 17, generator=generator)
    mask = torch.rand(5, 17, generator=generator) < 0.5
    mask[0] = False
    return rewards, values, mask, torch.randn(5, generator=generator)


def test_gae_is_the_naive_loop_over_action_tokens() -> None:
    for seed, (gamma, lam) in enumerate([(1.0, 1.0), (0.9, 0.8), (0.5, 0.0), (1.0, 0.95)]):
        rewards, values, mask, bootstrap = a_batch(seed)
        advantages, targets = gae(rewards, values, mask, gamma, lam, bootstrap)
        expected = naive_gae(rewards.tolist(), values.tolist(), mask.tolist(), gamma, lam, bootstrap.tolist())
        torch.testing.assert_close(advantages, expected)
        torch.testing.assert_close(targets, torch.where(mask, expected + values, 0.0))


def test_what_stands_outside_the_mask_is_never_read() -> None:
    rewards, values, mask, bootstrap = a_batch(4)
    spoilt = torch.where(mask, rewards, math.nan), torch.where(mask, values, math.nan)
    assert torch.equal(gae(*spoilt, mask, 0.9, 0.9, bootstrap)[0], gae(rewards, values, mask, 0.9, 0.9, bootstrap)[0])
    assert torch.equal(returns_to_go(spoilt[0], mask, 0.9), returns_to_go(rewards, mask, 0.9))
    assert torch.equal(whiten(spoilt[0], mask), whiten(rewards, mask))
    assert torch.equal(masked_mean(spoilt[0], mask), masked_mean(rewards, mask))


def test_an_empty_batch_and_one_without_actions_have_no_credit() -> None:
    nothing = torch.zeros(0, 0), torch.zeros(0, 0), torch.zeros(0, 0, dtype=torch.bool)
    assert gae(*nothing, 1.0, 1.0)[0].shape == (0, 0)
    no_action = torch.ones(2, 3), torch.ones(2, 3), torch.zeros(2, 3, dtype=torch.bool)
    assert not gae(*no_action, 1.0, 1.0)[0].any()


def test_whitening_damps_a_spread_below_its_eps() -> None:
    values, every = torch.tensor([0.0, 2e-6], dtype=torch.float64), torch.tensor([True, True])
    expected = (values - 1e-6) / math.sqrt(2e-12 + 1e-8)
    torch.testing.assert_close(whiten(values, every, eps=1e-8), expected)


def test_two_numbers_are_enough_to_whiten_and_to_explain() -> None:
    values, both = torch.tensor([1.0, 3.0]), torch.tensor([True, True])
    torch.testing.assert_close(whiten(values, both), torch.tensor([-1.0, 1.0]) / math.sqrt(2))
    assert explained_variance(values, values, both) == 1.0


def test_whitening_equal_numbers_gives_exact_zeros() -> None:
    """Rounding noise must not be blown up to advantages of one."""
    mask = torch.ones(1, 3, dtype=torch.bool)
    assert not whiten(torch.full((1, 3), 0.1), mask).any()
    assert not whiten(torch.tensor([[0.3, 0.3 + 3e-8, 0.3]]), mask).any(), "rounding, and no spread"
    assert not whiten(torch.full((1, 1), 5.0), mask[:, :1]).any()


def test_compaction_keeps_the_order_of_counted_tokens() -> None:
    rng = random.Random(0)
    mask = torch.tensor([[rng.random() < 0.4 for _ in range(9)] for _ in range(4)])
    index, present = compact(mask)
    for row in range(4):
        assert index[row][present[row]].tolist() == mask[row].nonzero().flatten().tolist()


def test_explained_variance_of_a_perfect_and_of_a_constant_critic() -> None:
    mask = torch.ones(1, 4, dtype=torch.bool)
    targets = torch.tensor([[0.0, 1.0, 0.0, 1.0]])
    assert explained_variance(targets, targets, mask) == 1.0
    assert explained_variance(torch.zeros(1, 4), targets, mask) == 0.0
    assert explained_variance(targets, torch.ones(1, 4), mask) == 0.0


def test_kl_in_the_reward_needs_both_policies() -> None:
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
