"""REINFORCE++: the contract and its metric."""

from __future__ import annotations

import pytest
from agent_r1_reinforce_pp.reinforce_pp import ReinforcePP

from agent_r1_core.testing import AlgorithmContract, tiny_batch


class TestReinforcePP(AlgorithmContract):
    component = ReinforcePP
    variants = ({}, {"kl_coef": 0.01, "gamma": 0.9}, {"baseline": True}, {"baseline": True, "kl_coef": 0.01})


def made(**options) -> ReinforcePP:
    return ReinforcePP(ReinforcePP.Config(**options))


def test_the_metric_of_the_kl_is_of_action_tokens() -> None:
    batch = tiny_batch()
    gaps = (batch.old_logprobs - batch.reference_logprobs)[batch.action_mask]
    assert made().advantages(batch).metrics["kl_reference"] == pytest.approx(float(gaps.mean()), abs=1e-6)
    found = made(kl_estimator="k2", kl_coef=0.1).advantages(batch).metrics["kl_reference"]
    assert found == pytest.approx(float((gaps**2 / 2).mean()), abs=1e-6)
    batch.old_logprobs = None
    assert made().advantages(batch).metrics == {}
