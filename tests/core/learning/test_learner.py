"""The learner: it learns, counts and refuses."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from agent_r1_grpo.grpo import GRPO
from agent_r1_ppo.ppo import PPO
from gradients import KeptGradients, relative_difference

from agent_r1_core import ConfigError, EndStatus, Group
from agent_r1_core.contracts.training import LoraSettings, TrainingConfig
from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.forward import forward
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.policy import Policy
from agent_r1_core.testing import make_task, make_trajectory, random_group, tiny_model, tiny_model_folder


def groups(*seeds: int) -> list[Group]:
    return [random_group(seed, 4) for seed in seeds]


def weights_of(learner: Learner) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in learner.policy.weights().values()])


def learner_with(algorithm: Any = GRPO, **settings: Any) -> Learner:
    return Learner(Policy(tiny_model()), algorithm(), TrainingConfig(**settings))


def test_metrics_say_what_happened_and_the_gap_to_the_engine_before_the_update() -> None:
    metrics = learner_with(epochs=2, minibatches=2, lr=1e-3).update(groups(0, 1), 1).metrics
    assert metrics["update/steps"] == 4
    assert metrics["update/trajectories"] == 8
    assert metrics["update/lr"] == 1e-3
    assert metrics["update/grad_norm"] > 0
    assert metrics["logprob_gap"] > 0
    assert 0 < metrics["prob_gap"] <= 1
    assert 0 <= metrics["update/clip_fraction"] <= 1
    assert metrics["update/kl_step"] > 0
    assert all(math.isfinite(value) for value in metrics.values())
    for more in ({}, {"minibatches": 2}, {"epochs": 3}):
        moved = learner_with(lr=1e-2, **more).update(groups(0, 1), 1).metrics
        for gap in ("logprob_gap", "prob_gap"):
            assert moved[gap] == pytest.approx(metrics[gap], rel=1e-4), "however many steps it takes"


def test_the_losses_of_a_step_are_means_over_its_optimiser_steps() -> None:
    losses, value_losses = [], []

    class Watching(PPO):
        def loss(self, tokens):  # type: ignore[no-untyped-def]
            terms = super().loss(tokens)
            losses.append(terms.loss.item())
            value_losses.append(terms.value_loss.item())
            return terms

    metrics = learner_with(Watching, minibatches=2, max_tokens_per_microbatch=1).update(groups(0, 1), 1).metrics
    assert len(losses) > metrics["update/steps"] == 2
    assert metrics["update/loss"] == pytest.approx(sum(losses) / 2, rel=1e-5)
    assert metrics["update/value_loss"] == pytest.approx(sum(value_losses) / 2, rel=1e-5)


def test_what_teaches_nothing_moves_nothing_not_even_by_momentum() -> None:
    """An empty batch, a rollout without spread, and a gradient that is not finite."""
    learner = learner_with()
    before = weights_of(learner)
    failed = make_trajectory(status=EndStatus.FAILED, reward=1.0)
    for nothing, lost in ([], 0), ([Group(make_task(), [])], 0), ([Group(make_task(), [failed])], 1):
        assert learner.update(nothing, 1).metrics == {
            "update/trajectories": 0, "update/action_tokens": 0, "update/steps": 0, "update/failed_trajectories": lost,
        }  # fmt: skip
    assert torch.equal(weights_of(learner), before)
    flat = [Group(make_task(), [make_trajectory(sample=i, reward=0.5) for i in range(4)])]
    for skip in (True, False):
        learner = learner_with(skip_without_gradient=skip, weight_decay=0.1)
        learner.update(groups(0), 1)
        before = weights_of(learner).clone()
        metrics = learner.update(flat, 2).metrics
        assert metrics["update/skipped_share"] == float(skip)
        assert metrics["update/skipped_zero"] == 1
        assert torch.equal(weights_of(learner), before)
    broken, learner = groups(0), learner_with()
    broken[0].trajectories[0].reward = math.nan
    before = weights_of(learner).clone()
    assert learner.update(broken, 1).metrics["update/skipped_nonfinite"] == 1
    assert torch.equal(weights_of(learner), before)
    with torch.no_grad():
        next(iter(learner.policy.parameters()))[0] = math.inf
    poisoned = weights_of(learner).clone()
    assert learner.update(groups(0), 2).metrics["update/skipped_nonfinite"] == 1
    assert torch.equal(weights_of(learner).nan_to_num(), poisoned.nan_to_num())


def test_while_the_critic_warms_up_the_policy_runs_on_a_sample_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough to compare it with the engine; nothing else needs its log-probs."""
    policy, passes = Policy(tiny_model()), []
    original = policy.logprobs

    def watched(packed, *arguments):  # type: ignore[no-untyped-def]
        passes.append((len(packed.rows), torch.is_grad_enabled()))
        return original(packed, *arguments)

    monkeypatch.setattr(policy, "logprobs", watched)
    learner = Learner(policy, PPO(), TrainingConfig(critic_warmup=1, epochs=2, minibatches=2))
    metrics = learner.update(groups(0, 1, 2), 1).metrics
    assert passes == [(3, False)]
    assert metrics["logprob_gap"] > 0
    assert metrics["update/critic_steps"] == 4
    learner.update(groups(0, 1, 2), 2)
    assert any(gradient for _, gradient in passes)


def test_an_update_neither_reads_nor_moves_the_global_random_state(tmp_path: Path) -> None:
    """It may run in a thread of its own, whatever other threads draw meanwhile; dropout of adapters included."""
    folder = tiny_model_folder(tmp_path / "model")
    weights = []
    for own_draws in (0, 5):
        policy = Policy.load(folder, lora=LoraSettings(rank=4, dropout=0.5))
        learner = Learner(policy, GRPO(), TrainingConfig(epochs=2, minibatches=2))
        torch.rand(own_draws)
        before = torch.get_rng_state()
        learner.update(groups(0, 1), 1)
        assert torch.equal(torch.get_rng_state(), before)
        weights.append(weights_of(learner))
    assert torch.equal(*weights)


@pytest.mark.parametrize("minibatches", [1, 2])
def test_what_the_policy_said_is_told_without_the_dropout_of_adapters(tmp_path: Path, minibatches: int) -> None:
    """Engine and policy do not differ by what a pass with gradient drops."""
    policy = Policy.load(tiny_model_folder(tmp_path / "model"), lora=LoraSettings(rank=4, dropout=0.9))
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.05)
    batch = Batch.from_groups([random_group(0, 3)])
    own = forward(batch, batch.action_mask, policy, None, None, old="learner").own_logprobs[batch.action_mask]
    update = Learner(policy, GRPO(), TrainingConfig(minibatches=minibatches)).update([random_group(0, 3)], 1)
    gap = (own - batch.sampler_logprobs[batch.action_mask]).abs().mean()
    assert update.metrics["logprob_gap"] == pytest.approx(float(gap), rel=1e-4)
    said = update.numbers.learner_logprobs
    assert np.nansum(abs(said)) == pytest.approx(float(own.abs().sum()) if minibatches == 2 else 0.0, rel=1e-4)


def test_the_reference_of_a_policy_with_adapters_is_the_model_below_them(tmp_path: Path) -> None:
    """A second, frozen model gives the same gradient; none is needed."""
    folder, gradients = tiny_model_folder(tmp_path / "model"), []
    for reference in (None, Policy.load(folder).freeze()):
        policy = Policy.load(folder, lora=LoraSettings(rank=4))
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.add_(0.05)
        learner = Learner(policy, GRPO(GRPO.Config(kl_coef=1.0)), TrainingConfig(), reference=reference)
        learner.optimiser = KeptGradients(policy.parameters(), TrainingConfig())
        learner.update(groups(0, 1), 1)
        gradients += learner.optimiser.kept
    assert gradients[0].norm() > 1e-3
    assert relative_difference(*gradients) < 1e-6
    with pytest.raises(ConfigError, match="reference"):
        Learner(Policy(tiny_model()), GRPO(GRPO.Config(kl_coef=0.1)), TrainingConfig())


def test_metrics_say_how_much_of_the_batch_they_cover_and_what_no_critic_continues() -> None:
    varied, flat = random_group(0, 4), Group(make_task("flat"), [make_trajectory(sample=i) for i in range(2)])
    batch = Batch.from_groups([varied, flat])
    covered = batch.action_mask[batch.group == 0].sum() / batch.action_mask.sum()
    for skip, share in ((True, float(covered)), (False, 1.0)):
        metrics = learner_with(skip_without_gradient=skip).update([varied, flat], 1).metrics
        assert metrics["update/measured_share"] == pytest.approx(share)
    cut = [Group(make_task(), [make_trajectory(sample=i, reward=float(i), bootstrap=i < 2) for i in range(3)])]
    found = [learner_with(one).update(cut, 1).metrics.get("update/bootstrapped_without_critic") for one in (GRPO, PPO)]
    assert found == [2, None]


def told_by(learner: Learner, rollout: list[Group]) -> tuple[list[Any], list[Any]]:
    """The learner's log-probs and values that an update tells of, by trajectory."""
    numbers = learner.update(rollout, 1).numbers
    told = [numbers.of(one.id) for group in rollout for one in group.trajectories]
    return [one["learner_logprobs"] for one in told], [one["values"] for one in told]


def test_an_update_tells_what_the_policy_said_of_tokens_before_it_moved_and_the_critics_value_before_each() -> None:
    """By a pass before the update, or those of its first mini-batch; nothing of rows that are skipped or come later."""
    rollout = [random_group(0, 4, new_segment_at=(1,))]
    batch = Batch.from_groups(rollout)
    exact = forward(batch, batch.action_mask, Policy(tiny_model()), None, None, old="learner").own_logprobs
    expected = [torch.where(batch.action_mask, exact, math.nan)[row][batch.valid[row]] for row in range(4)]
    whole = {"skip_without_gradient": False, "lr": 0.1}
    several = {**whole, "epochs": 2, "minibatches": 2}
    sources = {source: several | {"old_logprobs": source} for source in ("learner", "engine")}
    for settings, known in ((whole, 4), (sources["learner"], 4), (sources["engine"], 2)):
        own, values = told_by(learner_with(**settings), rollout)
        assert sum(one is not None for one in own) == known
        for row, one in enumerate(own):
            if one is not None:
                assert torch.allclose(torch.tensor(one), expected[row], atol=1e-5, equal_nan=True)
        assert values == [None] * 4
    for one in rollout[0].trajectories[1:]:
        one.reward = rollout[0].trajectories[0].total_reward - (one.total_reward - one.reward)
    assert told_by(learner_with(), rollout)[0] == [None] * 4
    quiet = Learner(Policy(tiny_model()), PPO(), TrainingConfig(**whole), records=False)
    assert told_by(quiet, rollout) == ([None] * 4, [None] * 4)
    rollout = [random_group(0, 3)]
    learner = learner_with(PPO)
    with torch.no_grad():
        learner.critic.head.weight.normal_(generator=torch.Generator().manual_seed(0))
    batch = Batch.from_groups(rollout)
    outputs = forward(batch, batch.action_mask, learner.policy, None, copy.deepcopy(learner.critic), old=None)
    for row, told in enumerate(told_by(learner, rollout)[1]):
        expected = torch.where(batch.response_mask, outputs.values, math.nan)[row][batch.valid[row]]
        assert torch.allclose(torch.tensor(told), expected, atol=1e-5, equal_nan=True)
        assert float(torch.tensor(told).nan_to_num().abs().max()) > 0.01
