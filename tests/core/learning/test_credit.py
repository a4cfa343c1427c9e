"""Credit along a trajectory against naive loops over the action tokens alone."""

from __future__ import annotations

import math
import random

import pytest
import torch

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.credit import gae, kl_in_reward, returns_to_go, spread_over
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


def a_batch(seed: int, rows: int = 5, length: int = 17):
    generator = torch.Generator().manual_seed(seed)
    rewards = torch.randn(rows, length, generator=generator)
    values = torch.randn(rows, length, generator=generator)
    mask = torch.rand(rows, length, generator=generator) < 0.5
    mask[0] = False
    return rewards, values, mask, torch.randn(rows, generator=generator)


def test_gae_is_the_naive_loop_over_action_tokens() -> None:
    for seed, (gamma, lam) in enumerate([(1.0, 1.0), (0.9, 0.8), (0.5, 0.0), (1.0, 0.95)]):
        rewards, values, mask, bootstrap = a_batch(seed)
        advantages, targets = gae(rewards, values, mask, gamma, lam, bootstrap)
        expected = naive_gae(rewards.tolist(), values.tolist(), mask.tolist(), gamma, lam, bootstrap.tolist())
        torch.testing.assert_close(advantages, expected)
        torch.testing.assert_close(targets, torch.where(mask, expected + values, 0.0))


def test_gae_by_hand() -> None:
    rewards = torch.tensor([[0.0, 0.0, 9.0, 1.0]])
    values = torch.tensor([[7.0, 0.5, 7.0, 0.25]])
    mask = torch.tensor([[False, True, False, True]])
    advantages, targets = gae(rewards, values, mask, gamma=0.5, lam=0.5)
    # last: 1 + 0.5 * 0 - 0.25 = 0.75; first: 0 + 0.5 * 0.25 - 0.5 + 0.5 * 0.5 * 0.75 = -0.1875
    torch.testing.assert_close(advantages, torch.tensor([[0.0, -0.1875, 0.0, 0.75]]))
    torch.testing.assert_close(targets, torch.tensor([[0.0, 0.3125, 0.0, 1.0]]))


def test_gae_with_lambda_one_is_return_minus_value() -> None:
    rewards, values, mask, _ = a_batch(3)
    advantages, _ = gae(rewards, values, mask, 0.97, 1.0)
    torch.testing.assert_close(
        advantages, torch.where(mask, returns_to_go(rewards, mask, 0.97) - values, 0.0), atol=1e-5, rtol=1e-5
    )


def test_what_stands_outside_the_mask_is_never_read() -> None:
    rewards, values, mask, bootstrap = a_batch(4)
    spoilt = torch.where(mask, rewards, math.nan), torch.where(mask, values, math.nan)
    assert torch.equal(gae(*spoilt, mask, 0.9, 0.9, bootstrap)[0], gae(rewards, values, mask, 0.9, 0.9, bootstrap)[0])
    assert torch.equal(returns_to_go(spoilt[0], mask, 0.9), returns_to_go(rewards, mask, 0.9))
    assert torch.equal(whiten(spoilt[0], mask), whiten(rewards, mask))
    assert torch.equal(masked_mean(spoilt[0], mask), masked_mean(rewards, mask))


def test_environment_tokens_cost_no_discount() -> None:
    """A thousand tokens of tool text between two actions change nothing."""
    near = torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([[0.1, 0.2, 0.3]]), torch.tensor([[True, True, True]])
    far = [torch.cat([part[:, :1], part.new_zeros(1, 1000), part[:, 1:]], 1) for part in near]
    close, _ = gae(*near, 0.9, 0.9)
    distant, _ = gae(far[0], far[1], far[2], 0.9, 0.9)
    assert torch.equal(close[0], distant[0][far[2][0]])


def test_returns_to_go_is_the_naive_loop() -> None:
    rewards, _, mask, _ = a_batch(5)
    expected = torch.zeros_like(rewards)
    for i in range(rewards.shape[0]):
        running = 0.0
        for t in reversed(range(rewards.shape[1])):
            if mask[i, t]:
                running = float(rewards[i, t]) + 0.8 * running
                expected[i, t] = running
    torch.testing.assert_close(returns_to_go(rewards, mask, 0.8), expected)


def test_an_empty_batch_and_one_without_actions_have_no_credit() -> None:
    nothing = torch.zeros(0, 0), torch.zeros(0, 0), torch.zeros(0, 0, dtype=torch.bool)
    assert gae(*nothing, 1.0, 1.0)[0].shape == (0, 0)
    no_action = torch.ones(2, 3), torch.ones(2, 3), torch.zeros(2, 3, dtype=torch.bool)
    assert not gae(*no_action, 1.0, 1.0)[0].any()


def test_whitening_gives_mean_zero_and_variance_one_over_the_mask() -> None:
    rewards, _, mask, _ = a_batch(6)
    white = whiten(rewards, mask)
    assert abs(float(white[mask].mean())) < 1e-6
    assert abs(float(white[mask].var()) - 1) < 1e-5
    assert not white[~mask].any()


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


def test_a_row_number_is_spread_over_its_credited_tokens() -> None:
    mask = torch.tensor([[True, False], [False, True]])
    assert spread_over(torch.tensor([2.0, 3.0]), mask).tolist() == [[2.0, 0.0], [0.0, 3.0]]


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
