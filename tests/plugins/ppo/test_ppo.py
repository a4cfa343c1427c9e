"""PPO: the contract, a missing critic, the metrics."""

from __future__ import annotations

from dataclasses import replace

import pytest
from agent_r1_ppo.ppo import PPO

from agent_r1_core.testing import AlgorithmContract, loss_tokens, tiny_batch


class TestPPO(AlgorithmContract):
    component = PPO
    variants = (
        {},
        {"kl_coef": 0.01, "kl_in": "loss", "kl_estimator": "k3"},
        {"gae": "turn", "kl_coef": 0.01},
        {"gamma": 0.95, "lam": 0.9, "kl_coef": 0.01},
        {"advantage_mask": False},
        {"advantage_mask": False, "loss_mask": False},
    )


def made(**options) -> PPO:
    return PPO(PPO.Config(**options))


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
    out = made(gamma=0.9, kl_coef=0.5).advantages(batch)
    mask = batch.action_mask
    values, targets = batch.values[mask], out.value_targets[mask]
    assert out.metrics["value_mean"] == pytest.approx(float(values.mean()))
    explained = float(1 - (targets - values).var() / targets.var())
    assert out.metrics["value_explained_variance"] == pytest.approx(explained, abs=1e-5)
    assert "kl_reference" not in made(kl_coef=0.5, kl_in="loss").advantages(batch).metrics, "the loss logs it"
