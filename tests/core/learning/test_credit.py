"""Edges of credit along a trajectory; tests/yardstick compares its formulas."""

from __future__ import annotations

import pytest
import torch

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.credit import gae, kl_in_reward, lam_of_length
from agent_r1_core.learning.masking import explained_variance, whiten
from agent_r1_core.testing import random_group


def test_an_empty_batch_and_one_without_actions_have_no_credit() -> None:
    nothing = torch.zeros(0, 0), torch.zeros(0, 0), torch.zeros(0, 0, dtype=torch.bool)
    assert gae(*nothing, 1.0, 1.0)[0].shape == (0, 0)
    no_action = torch.ones(2, 3), torch.ones(2, 3), torch.zeros(2, 3, dtype=torch.bool)
    assert not gae(*no_action, 1.0, 1.0)[0].any()


def test_whitening_equal_numbers_gives_exact_zeros() -> None:
    """Rounding noise must not be blown up to advantages of one."""
    mask = torch.ones(1, 3, dtype=torch.bool)
    assert not whiten(torch.full((1, 3), 0.1), mask).any()
    assert not whiten(torch.tensor([[0.3, 0.3 + 3e-8, 0.3]]), mask).any(), "rounding, and no spread"
    assert not whiten(torch.full((1, 1), 5.0), mask[:, :1]).any()


def test_explained_variance_of_a_perfect_and_of_a_constant_critic() -> None:
    mask = torch.ones(1, 4, dtype=torch.bool)
    targets = torch.tensor([[0.0, 1.0, 0.0, 1.0]])
    assert explained_variance(targets, targets, mask) == 1.0
    assert explained_variance(torch.zeros(1, 4), targets, mask) == 0.0
    assert explained_variance(targets, torch.ones(1, 4), mask) == 0.0
    assert explained_variance(targets, 1 + 1e-7 * targets, mask) == 0.0, "rounding, and no spread"


def test_the_length_of_a_row_sets_its_lambda() -> None:
    mask = torch.tensor([[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=torch.bool)
    torch.testing.assert_close(lam_of_length(mask, 1.25), torch.tensor([0.2, 0.2, 0.6, 1 - 1 / 3.75]))
    assert lam_of_length(mask, 0.5).tolist() == [0.0, 0.0, 0.0, pytest.approx(1 / 3)], "never below 0"


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
