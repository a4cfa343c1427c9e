"""PPO: the contract, GAE over action tokens through the algorithm, the value loss, the ablations."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from agent_r1_ppo.ppo import PPO

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.kl import kl_estimate
from agent_r1_core.testing import AlgorithmContract, loss_tokens, make_task, make_trajectory, tiny_batch
from agent_r1_core.trajectory import Group

TWO_TURNS = (((1, 2), (3, 4)), ((5, 6, 7), (8,)))


class TestPPO(AlgorithmContract):
    component = PPO
    variants = (
        {},
        {"kl_coef": 0.01, "kl_in": "loss", "kl_estimator": "k3"},
        {"gamma": 0.95, "lam": 0.9, "kl_coef": 0.01},
        {"gae": "turn", "kl_coef": 0.01},
        {"advantage_mask": False},
        {"advantage_mask": False, "loss_mask": False},
    )


def made(**options) -> PPO:
    return PPO(PPO.Config(**options))


def valued(trajectory, values: list[float]) -> Batch:
    batch = Batch.from_groups([Group(make_task(), [trajectory])])
    batch.values = torch.tensor([values])
    return batch


def test_process_and_outcome_rewards_flow_back_over_turns_and_skip_the_tools_answer() -> None:
    trajectory = make_trajectory(TWO_TURNS, turn_rewards=(1.0, 0.0), reward=2.0)
    batch = valued(trajectory, [9, 9, 0.1, 0.2, 9, 9, 9, 0.3])
    out = made(gamma=0.5, lam=1.0, whiten=False).advantages(batch)
    # returns to go over tokens 2, 3, 7: 2; 1 + 0.5 * 2 = 2; 0 + 0.5 * 2 = 1
    expected = torch.tensor([[0, 0, 1.0 - 0.1, 2.0 - 0.2, 0, 0, 0, 2.0 - 0.3]])
    torch.testing.assert_close(out.advantages, expected)
    torch.testing.assert_close(out.value_targets, torch.tensor([[0, 0, 1.0, 2.0, 0, 0, 0, 2.0]]))


def test_with_turn_gae_a_reward_is_discounted_by_turns_and_credits_a_turns_tokens_alike() -> None:
    trajectory = make_trajectory(TWO_TURNS, turn_rewards=(1.0, 0.0), reward=2.0)
    batch = valued(trajectory, [9, 9, 0.1, 0.2, 9, 9, 9, 0.3])
    out = made(gae="turn", gamma_turn=0.5, whiten=False).advantages(batch)
    expected = torch.tensor([[0, 0, 2.0 - 0.1, 2.0 - 0.2, 0, 0, 0, 2.0 - 0.3]])
    torch.testing.assert_close(out.advantages, expected)
    batch.bootstrap = torch.tensor([4.0])
    out = made(gae="turn", gamma_turn=0.5, lam_turn=0.0, gamma=0.5, whiten=False).advantages(batch)
    torch.testing.assert_close(out.value_targets, torch.tensor([[0, 0, 0.5 * 1.15, 1.15, 0, 0, 0, 4.0]]))


def test_only_a_bootstrap_continues_the_last_action() -> None:
    batch = valued(make_trajectory(TWO_TURNS), [0.0] * 8)
    batch.bootstrap = torch.tensor([4.0])
    out = made(gamma=0.5, whiten=False).advantages(batch)
    torch.testing.assert_close(out.advantages, torch.tensor([[0, 0, 0.5, 1.0, 0, 0, 0, 2.0]]))


def test_without_the_advantage_mask_the_tools_tokens_discount() -> None:
    trajectory = make_trajectory(TWO_TURNS, reward=1.0)
    batch = valued(trajectory, [0.0] * 8)
    out = made(gamma=0.5, whiten=False, advantage_mask=False).advantages(batch)
    powers = torch.tensor([[0, 0] + [0.5**k for k in range(5, -1, -1)]])
    torch.testing.assert_close(out.advantages, powers)
    assert out.value_mask.tolist() == batch.response_mask.tolist()


def test_whitened_advantages_have_mean_zero_over_action_tokens() -> None:
    batch = tiny_batch()
    advantages = made().advantages(batch).advantages[batch.action_mask]
    assert abs(float(advantages.mean())) < 1e-5
    assert abs(float(advantages.var()) - 1) < 1e-4


def test_the_value_loss_pulls_values_towards_returns() -> None:
    algorithm, batch = made(value_clip=None), tiny_batch()
    tokens = loss_tokens(batch, algorithm.advantages(batch), algorithm)
    algorithm.loss(tokens).value_loss.backward()
    torch.testing.assert_close(
        tokens.values.grad, tokens.value_weights * (tokens.values - tokens.value_targets).detach()
    )


def test_each_estimator_of_the_kl_is_what_is_taken_from_the_reward_and_logged() -> None:
    batch = tiny_batch()
    plain = made(whiten=False, lam=0.0, gamma=0.0).advantages(batch).advantages
    for options in ({}, {"kl_estimator": "k2"}, {"kl_estimator": "k3"}):
        taxed = made(whiten=False, lam=0.0, gamma=0.0, kl_coef=0.5, **options).advantages(batch)
        tax = kl_estimate(batch.old_logprobs, batch.reference_logprobs, options.get("kl_estimator", "k1"))
        expected = torch.where(batch.action_mask, 0.5 * tax, 0.0)
        torch.testing.assert_close(plain - taxed.advantages, expected, atol=1e-5, rtol=1e-5)
        assert taxed.metrics["kl_reference"] == pytest.approx(float(tax[batch.action_mask].mean()), abs=1e-6)


def test_a_kl_in_the_loss_leaves_rewards_alone() -> None:
    batch, algorithm = tiny_batch(), made(kl_coef=0.5, kl_in="loss")
    advantages = algorithm.advantages(batch)
    assert torch.equal(advantages.advantages, made().advantages(batch).advantages)
    assert "kl_reference" not in advantages.metrics
    assert "kl_reference" in algorithm.loss(loss_tokens(batch, advantages, algorithm)).metrics


def test_missing_values_are_one_clear_sentence() -> None:
    algorithm, batch = made(), tiny_batch()
    tokens = loss_tokens(batch, algorithm.advantages(batch), algorithm)
    for field in ("values", "old_values", "value_targets", "value_weights"):
        with pytest.raises(ValueError, match="critic"):
            algorithm.loss(replace(tokens, **{field: None}))
    batch.values = None
    with pytest.raises(ValueError, match="critic"):
        algorithm.advantages(batch)


def test_the_metrics_are_of_credited_tokens() -> None:
    batch = tiny_batch()
    out = made(gamma=0.9).advantages(batch)
    mask = batch.action_mask
    values, targets = batch.values[mask], out.value_targets[mask]
    assert out.metrics["value_mean"] == pytest.approx(float(values.mean()))
    assert out.metrics["value_explained_variance"] == pytest.approx(
        float(1 - (targets - values).var() / targets.var()), abs=1e-5
    )
    gaps = (batch.old_logprobs - batch.reference_logprobs)[mask]
    assert out.metrics["kl_reference"] == pytest.approx(float(gaps.mean()), abs=1e-6)
    batch.old_logprobs = None
    assert "kl_reference" not in made().advantages(batch).metrics
