"""LAW 8: nothing is silently ignored."""

from __future__ import annotations

import asyncio

import pytest

from agent_r1_core.config import load_config
from agent_r1_core.contracts.env import Action, EnvServices
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.errors import ConfigError, UnknownComponent
from agent_r1_core.health.watch import HealthConfig, Watch
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.policy import Policy
from agent_r1_core.metrics.rollouts import episode_metrics, spread_metrics
from agent_r1_core.metrics.tally import tally
from agent_r1_core.plugins import Registry
from agent_r1_core.testing import make_trajectory, tiny_model
from agent_r1_core.trajectory import Group, Task


def test_an_unknown_key_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"training\.learning_rate.*override") as caught:
        load_config("default", ["training.learning_rate=1"])
    assert "lr" in str(caught.value)


def test_an_unknown_option_of_a_component_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"algorithm\.clip_hihg.*clip_high"):
        load_config("default", ["algorithm.clip_hihg=0.3"])


def test_an_unknown_component_is_an_error() -> None:
    with pytest.raises(UnknownComponent, match=r"grop.*grpo"):
        load_config("default", ["algorithm=grop"])


def test_an_option_that_was_set_and_has_no_effect_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"training\.critic_lr.*no effect"):
        load_config("default", ["training.critic_lr=1e-3"])
    with pytest.raises(ConfigError, match=r"training\.old_logprobs.*no effect"):
        load_config("default", ["training.old_logprobs=engine"])
    with pytest.raises(ConfigError, match=r"algorithm\.horizon.*no effect"):
        load_config("default", ["algorithm.horizon=99"])
    with pytest.raises(ConfigError, match=r"health\.kl_reference.*no effect.*no reference"):
        load_config("default", ["health.kl_reference.threshold=0.1"])


def test_a_malformed_call_becomes_an_observation_for_the_model() -> None:
    registry = Registry.discover()
    services = EnvServices(tool_format=registry.create("tool_format", "hermes"))
    env = registry.create("env", {"name": "tool_calling"}, services=services)
    asyncio.run(env.reset(Task("t", "?")))
    step = asyncio.run(env.step(Action('<tool_call>\n{"name": "wiki_search", "arguments": \n</tool_call>')))
    assert not step.terminated
    assert "Error" in step.observation.messages[0]["content"]
    assert step.errors


def test_a_cut_action_and_an_action_without_meaning_show_in_the_metrics() -> None:
    trajectory = make_trajectory()
    trajectory.turns[0].finish = "length"
    trajectory.turns[1].errors = ["no tool call and no answer"]
    metrics = episode_metrics([tally(trajectory)])
    assert metrics["episode/cut_actions"] == 0.5
    assert metrics["episode/malformed"] == 0.5


def test_a_step_in_which_no_reward_varies_is_a_loud_warning() -> None:
    group = Group(Task("t", "?"), [make_trajectory(sample=index, reward=1.0) for index in range(4)])
    (alarm,) = Watch(HealthConfig()).judge(1, spread_metrics([group]))
    assert "no group has any spread" in alarm.note()


def test_an_update_without_anything_to_train_on_says_so() -> None:
    learner = Learner(Policy(tiny_model()), Registry.discover().create("algorithm", "grpo"), TrainingConfig())
    update = learner.update([], step=1)
    assert update.metrics["update/trajectories"] == 0.0
    assert update.metrics["update/steps"] == 0.0
    (alarm,) = Watch(HealthConfig()).judge(1, update.metrics)
    assert "nothing to train on" in alarm.note()
