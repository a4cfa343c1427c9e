"""GiGPO: the contract, rounding of returns to go, and what it says when states have no names."""

from __future__ import annotations

import random

import pytest
import torch
from agent_r1_gigpo.gigpo import GiGPO
from agent_r1_grpo.grpo import GRPO

from agent_r1_core.learning.batch import Batch
from agent_r1_core.testing import AlgorithmContract, make_task, make_trajectory, random_group
from agent_r1_core.trajectory import Group


class TestGiGPO(AlgorithmContract):
    component = GiGPO
    variants = ({}, {"kl_coef": 0.01, "normalise_std": False}, {"loss_mask": False})


def made(**options) -> GiGPO:
    return GiGPO(GiGPO.Config(**options))


def test_the_same_rewards_in_another_order_tell_actions_from_one_state_nothing() -> None:
    """Of six process rewards: in float32 a third of such pairs differ in the last bit, and a std of 1e-8 is no std."""
    rng = random.Random(0)
    turns = [((1,), (2,))] * 6
    for _ in range(50):
        rewards = [rng.choice((-0.3, 0.1, 0.2, 0.7, 1.1)) for _ in turns]
        played = []
        for sample in range(2):
            names = ["start", *(f"{sample}/{k}" for k in range(5))]
            shuffled = rng.sample(rewards, len(rewards))
            played.append(make_trajectory(turns, sample=sample, state_keys=names, turn_rewards=shuffled))
        batch = Batch.from_groups([Group(make_task(), played)])
        out = made(gamma_turn=1.0, eps=0.0).advantages(batch)
        assert not out.advantages.any()
        assert out.metrics["anchored_turns"] == pytest.approx(1 / 6)
        assert not out.warnings


def test_without_any_named_state_it_is_grpo_and_says_so() -> None:
    batch = Batch.from_groups([random_group(0, 3, turns=2, state_keys=[None, None])])
    out = made().advantages(batch)
    assert torch.equal(out.advantages, GRPO().advantages(batch).advantages)
    assert "state_key" in out.warnings[0]
    assert out.metrics["anchored_turns"] == 0.0
