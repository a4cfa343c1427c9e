"""REINFORCE++: the contract, returns to go, and the baseline variant."""

from __future__ import annotations

import pytest
import torch
from agent_r1_reinforce_pp.reinforce_pp import ReinforcePP

from agent_r1_core.learning.batch import Batch
from agent_r1_core.testing import AlgorithmContract, loss_tokens, random_group, tiny_batch


class TestReinforcePP(AlgorithmContract):
    component = ReinforcePP
    variants = ({}, {"kl_coef": 0.01, "gamma": 0.9}, {"baseline": True}, {"baseline": True, "kl_coef": 0.01})


def made(**options) -> ReinforcePP:
    return ReinforcePP(ReinforcePP.Config(**options))


def test_with_baseline_a_group_without_spread_has_no_advantage_and_does_not_shift_the_others() -> None:
    varied = random_group(0, 4)
    flat = random_group(1, 4, turns=1, turn_rewards=[0.0], reward=1.0)
    both = Batch.from_groups([varied, flat])
    alone = Batch.from_groups([varied])
    advantages = made(baseline=True).advantages(both).advantages
    assert not advantages[4:].any()
    expected = made(baseline=True).advantages(alone).advantages
    torch.testing.assert_close(advantages[:4, : expected.shape[1]], expected)


def test_the_kl_stands_in_the_reward_or_with_baseline_in_the_loss() -> None:
    plain, baseline = made(kl_coef=0.1), made(kl_coef=0.1, baseline=True)
    batch = tiny_batch()
    tokens = loss_tokens(batch, baseline.advantages(batch), baseline)
    assert "kl_reference" in baseline.loss(tokens).metrics
    assert "kl_reference" not in plain.loss(tokens).metrics


def test_the_metric_of_the_kl_is_of_action_tokens() -> None:
    batch = tiny_batch()
    gaps = (batch.old_logprobs - batch.reference_logprobs)[batch.action_mask]
    assert made().advantages(batch).metrics["kl_reference"] == pytest.approx(float(gaps.mean()), abs=1e-6)
    found = made(kl_estimator="k2", kl_coef=0.1).advantages(batch).metrics["kl_reference"]
    assert found == pytest.approx(float((gaps**2 / 2).mean()), abs=1e-6)
    batch.old_logprobs = None
    assert made().advantages(batch).metrics == {}
