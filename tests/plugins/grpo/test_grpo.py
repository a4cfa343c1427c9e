"""GRPO and its relatives: the contract, the formulas, the presets."""

from __future__ import annotations

import statistics
from typing import ClassVar

import pytest
import torch
from agent_r1_grpo.grpo import GRPO
from agent_r1_grpo.plugin import PRESETS
from pydantic import ValidationError

from agent_r1_core.learning.batch import Batch
from agent_r1_core.testing import AlgorithmContract, loss_tokens, random_group, tiny_batch

OPTIONS = {preset.name: dict(preset.config) for preset in PRESETS}


class TestGRPO(AlgorithmContract):
    component = GRPO


class TestWithKL(AlgorithmContract):
    component = GRPO
    config: ClassVar = {"kl_coef": 0.01, "aggregation": "token_mean"}


class TestWithCorrectedKL(AlgorithmContract):
    component = GRPO
    config: ClassVar = {"kl_coef": 0.01, "kl_correction": True}


class TestWithEntropyBonus(AlgorithmContract):
    component = GRPO
    config: ClassVar = {"entropy_coef": 0.01}


class TestDrGRPO(AlgorithmContract):
    component = GRPO
    config: ClassVar = OPTIONS["dr_grpo"]


class TestRLOO(AlgorithmContract):
    component = GRPO
    config: ClassVar = OPTIONS["rloo"]


class TestGSPO(AlgorithmContract):
    component = GRPO
    config: ClassVar = OPTIONS["gspo"] | {"clip_low": 0.2, "clip_high": 0.2}


class TestCISPO(AlgorithmContract):
    component = GRPO
    config: ClassVar = OPTIONS["cispo"]


class TestWithoutLossMask(AlgorithmContract):
    component = GRPO
    config: ClassVar = {"loss_mask": False}
    masked = False


def made(**options) -> GRPO:
    return GRPO(GRPO.Config(**options))


def test_every_action_token_gets_the_standing_of_its_trajectory_in_its_group() -> None:
    batch = tiny_batch()
    advantages = made().advantages(batch).advantages
    for row in range(batch.size):
        group = batch.returns[batch.group == batch.group[row]].tolist()
        expected = (float(batch.returns[row]) - statistics.mean(group)) / (statistics.stdev(group) + 1e-6)
        torch.testing.assert_close(
            advantages[row][batch.action_mask[row]],
            torch.full((int(batch.action_mask[row].sum()),), expected),
            atol=1e-5,
            rtol=1e-4,
        )


def test_presets_are_what_their_papers_say() -> None:
    batch = tiny_batch()
    centred = made(**OPTIONS["dr_grpo"]).advantages(batch).advantages
    row = 1
    group = batch.returns[batch.group == batch.group[row]]
    standing = float(batch.returns[row] - group.mean())
    first = int(batch.action_mask[row].nonzero()[0])
    assert float(centred[row, first]) == pytest.approx(standing, rel=1e-4)
    others = made(**OPTIONS["rloo"]).advantages(batch).advantages
    assert float(others[row, first]) == pytest.approx(standing * len(group) / (len(group) - 1), rel=1e-4)
    dapo = made(**OPTIONS["dapo"]).config
    assert (dapo.clip_low, dapo.clip_high, dapo.filter, dapo.kl_coef) == (0.2, 0.28, "resample", 0.0)


def test_a_sequence_ratio_moves_all_tokens_of_a_trajectory_alike() -> None:
    batch = tiny_batch()
    algorithm = made(ratio="sequence", clip_low=10.0, clip_high=10.0)
    tokens = loss_tokens(batch, algorithm.advantages(batch), algorithm, moved=0.3)
    algorithm.loss(tokens).loss.backward()
    for row in range(batch.size):
        mine = tokens.logprobs.grad[tokens.sequence == row]
        torch.testing.assert_close(mine, mine[:1].expand_as(mine), atol=1e-7, rtol=1e-4)


def test_the_reference_is_needed_only_under_a_kl() -> None:
    assert made().roles() == {"policy"}
    assert not made().needs_every_trajectory()
    assert made(kl_coef=0.1).roles() == {"policy", "reference"}
    assert made(kl_coef=0.1).needs_every_trajectory()


def test_a_k1_loss_is_not_to_be_had() -> None:
    with pytest.raises(ValidationError, match="'k2' or 'k3'"):
        GRPO.Config(kl_coef=0.1, kl_estimator="k1")


def test_options_without_effect_are_named() -> None:
    filters = {"filter_share", "filter_p"}
    assert set(GRPO.idle_options(GRPO.Config())) == {"horizon", "kl_estimator", "kl_correction"} | filters
    assert set(GRPO.idle_options(GRPO.Config(aggregation="constant", kl_coef=0.1))) == filters
    assert set(GRPO.idle_options(GRPO.Config(normalise_std=False))) >= {"eps"}
    assert set(GRPO.idle_options(GRPO.Config(**OPTIONS["cispo"]))) >= {"dual_clip"}
    for name in ("rloo", "cispo"):
        assert all(isinstance(why, str) for why in GRPO.idle_options(GRPO.Config(**OPTIONS[name])).values())


def test_no_preset_sets_an_option_that_is_idle_in_it() -> None:
    for name, options in OPTIONS.items():
        idle = set(GRPO.idle_options(GRPO.Config(**options)))
        assert not idle & set(options), name


def test_without_the_loss_mask_environment_tokens_are_credited_too() -> None:
    batch = Batch.from_groups([random_group(0, 3, turns=3)])
    masked, unmasked = made().advantages(batch).advantages, made(loss_mask=False).advantages(batch).advantages
    assert torch.equal(masked[batch.action_mask], unmasked[batch.action_mask])
    between = batch.response_mask & ~batch.action_mask
    assert unmasked[between].abs().min() > 0
    assert not masked[between].any()
