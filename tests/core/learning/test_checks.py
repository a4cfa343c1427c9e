"""What an algorithm's author gets wrong is one sentence that names the algorithm and says what to do."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from agent_r1_grpo.grpo import GRPO
from agent_r1_ppo.ppo import PPO

from agent_r1_core import Algorithm, Group
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.errors import AlgorithmError, ConfigError
from agent_r1_core.learning.batch import Advantages, Batch
from agent_r1_core.learning.credit import spread_over
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.loss import LossTerms
from agent_r1_core.learning.policy import Policy
from agent_r1_core.learning.selection import Selection
from agent_r1_core.testing import random_group, tiny_model


def update(algorithm: Algorithm) -> None:
    Learner(Policy(tiny_model()), algorithm, TrainingConfig()).update([random_group(0, 4), random_group(1, 4)], 1)


def with_method(name: str, method: Callable[..., Any], base: type[Algorithm] = GRPO) -> Algorithm:
    """The algorithm `mine`, which has one method of its own; it gets what the base's would have returned."""

    def own(self: Any, given: Any) -> Any:
        return method(getattr(base, name)(self, given), given)

    algorithm = type("Mine", (base,), {name: own})()
    algorithm.name = "mine"
    return algorithm


@pytest.mark.parametrize(
    ("advantages", "said"),
    [
        (lambda own, batch: own.advantages, r"advantages returned a tensor of shape .*; return Advantages\(tensor\)"),
        (lambda own, batch: Advantages(own.advantages[:, :1]), r"shape \(8, 1\) for a batch of .*; return one number"),
        (lambda own, batch: Advantages(own.advantages.tolist()), "is a list for a batch"),
        (lambda own, batch: Advantages(own.advantages.long()), r"must be float, not torch.int64; .* with \.float\(\)$"),
        (lambda own, batch: replace(own, value_mask=own.advantages), r"must be bool, not torch.float32; .*\.bool\(\)$"),
        (lambda own, batch: Advantages(own.advantages.requires_grad_()), "carries a gradient.*; detach it"),
        (lambda own, batch: Advantages(own.advantages / 0), "is not finite, although .*; look for a division by zero"),
        (lambda own, batch: Advantages(own.advantages + 1.0), "did not choose; set them only where batch.action_mask"),
        (lambda own, batch: Advantages(own.advantages, metrics={"mine": own.advantages.sum()}), "'mine'.*make it a fl"),
        (lambda own, batch: Advantages(own.advantages, warnings="beware"), "warnings .* must be a tuple of sentences"),
    ],
)
def test_advantages_that_are_none(advantages: Callable[..., Any], said: str) -> None:
    with pytest.raises(AlgorithmError, match=f"^algorithm mine: .*{said}"):
        update(with_method("advantages", advantages))


def credits_the_environment(own: Advantages, batch: Batch) -> Advantages:
    """Meant for a mask of its own."""
    batch.action_mask |= batch.response_mask
    return Advantages(spread_over(batch.returns, batch.action_mask))


@pytest.mark.parametrize(
    ("changed", "method", "change"),
    [
        ("batch.action_mask", "advantages", credits_the_environment),
        ("batch.action_mask", "advantages", lambda own, batch: setattr(batch, "action_mask", batch.response_mask)),
        ("batch.returns", "advantages", lambda own, batch: batch.returns.numpy().fill(0)),
        ("batch.group", "advantages", lambda own, batch: batch.group.zero_()),
        ("batch.trajectories", "advantages", lambda own, batch: setattr(batch.trajectories[0], "reward", 99.0)),
        ("batch.trajectories", "advantages", lambda own, batch: batch.trajectories[0].segments[0].mask.reverse()),
        ("tokens.advantages", "loss", lambda own, tokens: tokens.advantages.clamp_(-1, 1)),
    ],
)
def test_an_algorithm_that_changes_what_it_was_given(changed: str, method: str, change: Callable[..., Any]) -> None:
    with pytest.raises(AlgorithmError, match=f"^algorithm mine changed {changed}; clone it before you change it$"):
        update(with_method(method, change))


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (lambda own, tokens: own.loss, r"loss returned a tensor of shape \(\); return LossTerms"),
        (lambda own, tokens: LossTerms(own.loss * tokens.weights), "loss of its LossTerms is a tensor.*a scalar"),
        (lambda own, tokens: LossTerms(own.loss.detach()), "no gradient; compute it from tokens.logprobs"),
        (lambda own, tokens: replace(own, metrics={"mine": own.loss}), "'mine'.*; return a pair of scalars"),
        (lambda own, tokens: LossTerms(-(tokens.advantages * tokens.logprobs).mean()), "not depend on tokens.weights"),
        (lambda own, tokens: LossTerms(own.loss / tokens.weights.sum()), "not proportional to tokens.weights; return"),
    ],
)
def test_losses_that_are_none(loss: Callable[..., Any], said: str) -> None:
    with pytest.raises(AlgorithmError, match=f"^algorithm mine: .*{said}"):
        update(with_method("loss", loss))


@pytest.mark.parametrize(
    ("method", "wrong", "said"),
    [
        ("advantages", lambda own, batch: Advantages(own.advantages), "its advantages come without value_targets"),
        ("loss", lambda own, tokens: LossTerms(own.loss), "its loss comes without value_loss"),
        (
            "loss",
            lambda own, tokens: replace(own, value_loss=(tokens.values - tokens.value_targets).pow(2).mean()),
            r"value_loss does not depend on tokens\.value_weights",
        ),
    ],
)
def test_a_critic_that_learns_nothing_or_not_by_its_weights(method: str, wrong: Callable[..., Any], said: str) -> None:
    with pytest.raises(AlgorithmError, match=said):
        update(with_method(method, wrong, PPO))


@pytest.mark.parametrize(
    "choose",
    [
        lambda groups: [random_group(0, 4)],
        lambda groups: [groups[0], replace(groups[0], trajectories=groups[0].trajectories[:1])],
        lambda groups: [replace(groups[0], trajectories=[groups[0].trajectories[0], groups[1].trajectories[0]])],
        lambda groups: [replace(groups[0], trajectories=groups[0].trajectories[:1] * 2)],
        lambda groups: [None],
    ],
)
def test_groups_that_nobody_gave(choose: Callable[[list[Group]], Any]) -> None:
    algorithm = with_method("filter", lambda own, groups: choose(groups))
    with pytest.raises(AlgorithmError, match="algorithm mine: filter must return a list of groups that it was given"):
        Selection(algorithm, TrainingConfig()).filter([random_group(0, 4), random_group(1, 4)])


def test_answers_about_a_choice_that_are_no_numbers() -> None:
    for name, answers, said in (
        ("filter_metrics", (None, {"hits": "many"}), "filter_metrics must return a dict of floats by name"),
        ("more_tasks", (-1, 1.5, None), "^algorithm Mine: more_tasks returned {}; return how many tasks"),
    ):
        for answer in answers:
            mine = type("Mine", (GRPO,), {name: lambda self, groups, more, answer=answer: answer})()
            with pytest.raises(AlgorithmError, match=said.format(answer)):
                getattr(Selection(mine, TrainingConfig()), name)([], 1 if name == "more_tasks" else [])


class Broken(GRPO):
    """Calls a library that raises."""

    def loss(self, tokens: Any) -> Any:
        return json.loads("[1234")


class Refusing(GRPO):
    def advantages(self, batch: Any) -> Any:
        raise ConfigError("algorithm.scale must be set")


def test_an_exception_names_the_authors_file_and_line_and_agent_r1s_own_errors_pass() -> None:
    line = inspect.getsourcelines(Broken.loss)[1] + 1
    said = rf"^algorithm Broken raised in loss \({re.escape(__file__)}, line {line}\): JSONDecodeError: "
    with pytest.raises(AlgorithmError, match=said):
        update(Broken())
    with pytest.raises(ConfigError, match="scale must be set"):
        update(Refusing())


def test_weights_are_looked_at_once_and_as_soon_as_something_can_be_told() -> None:
    """A rollout without spread tells nothing of a loss, the first one with spread does; the rest is taken on trust."""
    tracked, settings = list[bool](), TrainingConfig(skip_without_gradient=False, epochs=2)
    watched = with_method("loss", lambda own, tokens: tracked.append(tokens.weights.requires_grad) or own)
    learner = Learner(Policy(tiny_model()), watched, settings)
    flat = random_group(0, 3, turns=1, turn_rewards=[0.0], reward=1.0)
    for step, group in enumerate((flat, random_group(1, 4), random_group(2, 4)), 1):
        learner.update([group], step)
    assert tracked == [True, True, True, False, False, False]
