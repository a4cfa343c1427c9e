"""GRPO and its relatives: the contract, the formulas, the presets."""

from __future__ import annotations

import statistics

import pytest
import torch
from agent_r1_grpo.grpo import GRPO
from agent_r1_grpo.plugin import PRESETS

from agent_r1_core.learning.batch import Batch
from agent_r1_core.testing import AlgorithmContract, loss_tokens, random_group, tiny_batch

OPTIONS = {preset.name: dict(preset.config) for preset in PRESETS}


class TestGRPO(AlgorithmContract):
    component = GRPO
    variants = (
        {},
        {"kl_coef": 0.01, "aggregation": "token_mean"},
        {"kl_coef": 0.01, "kl_correction": True},
        {"entropy_coef": 0.01},
        OPTIONS["dr_grpo"],
        OPTIONS["rloo"],
        OPTIONS["gspo"] | {"clip_low": 0.2, "clip_high": 0.2},
        OPTIONS["cispo"],
        {"loss_mask": False},
    )


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


def test_without_the_loss_mask_environment_tokens_are_credited_too() -> None:
    batch = Batch.from_groups([random_group(0, 3, turns=3)])
    masked, unmasked = made().advantages(batch).advantages, made(loss_mask=False).advantages(batch).advantages
    assert torch.equal(masked[batch.action_mask], unmasked[batch.action_mask])
    between = batch.response_mask & ~batch.action_mask
    assert unmasked[between].abs().min() > 0
    assert not masked[between].any()
