"""LAW 8: nothing is silently ignored."""

from __future__ import annotations

import asyncio

import gguf
import pytest
import torch
from gguf_file import tiny_llama, write_gguf

from agent_r1_core.assembly.model_source import find_model
from agent_r1_core.config import load_config
from agent_r1_core.contracts.env import Action, EnvServices
from agent_r1_core.errors import ConfigError, ModelError
from agent_r1_core.health.watch import HealthConfig, Watch
from agent_r1_core.metrics.rollouts import spread_metrics
from agent_r1_core.plugins import Registry
from agent_r1_core.testing import make_trajectory
from agent_r1_core.trajectory import Group, Task


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("training.learning_rate=1", r"training\.learning_rate.*override.*lr"),
        ("algorithm.clip_hihg=0.3", r"algorithm\.clip_hihg.*clip_high"),
        ("training.critic_lr=1e-3", r"training\.critic_lr.*no effect"),
        ("training.old_logprobs=engine", r"training\.old_logprobs.*no effect"),
        ("algorithm.horizon=99", r"algorithm\.horizon.*no effect"),
        ("health.kl_reference.threshold=0.1", r"health\.kl_reference.*no effect.*no reference"),
    ],
    ids=["unknown_key", "unknown_option", *(f"no_effect-{number}" for number in range(4))],
)
def test_an_override_that_nothing_would_follow_is_an_error(override: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        load_config("default", [override])


@pytest.mark.parametrize(
    ("change", "rule", "sentence"),
    [
        (
            lambda writer: writer.add_tensor("rope_freqs.weight", torch.ones(4).numpy()),
            "smollm",
            r"27,108 numbers, .* LlamaForCausalLM .* has 27,104, so a part would be lost;",
        ),
        (
            lambda writer: writer.add_rope_scaling_type(gguf.RopeScalingType.YARN),
            "smollm",
            "scales positions by 'yarn', which transformers does not read",
        ),
        (lambda writer: None, "runes", r"cuts text by the rule 'runes' .* would read other tokens than it learned;"),
    ],
    ids=["tensor_without_a_place", "scaling_of_positions", "unknown_rule_of_cutting_text"],
)
def test_what_transformers_passes_over_in_a_gguf_is_an_error(change, rule, sentence, tmp_path):
    """Llama 3 scales its positions with a tensor of its own; without it the model would read short texts alone."""
    file = write_gguf(tmp_path / "tiny.gguf", tiny_llama(), change, rule=rule)
    with pytest.raises(ModelError, match=sentence):
        find_model(str(file))


def test_a_malformed_call_becomes_an_observation_for_the_model() -> None:
    registry = Registry.discover()
    services = EnvServices(tool_format=registry.create("tool_format", "hermes"))
    env = registry.create("env", {"name": "tool_calling"}, services=services)
    asyncio.run(env.reset(Task("t", "?")))
    step = asyncio.run(env.step(Action('<tool_call>\n{"name": "wiki_search", "arguments": \n</tool_call>')))
    assert not step.terminated
    assert "Error" in step.observation.messages[0]["content"]
    assert step.errors


def test_a_step_in_which_no_reward_varies_is_a_loud_warning() -> None:
    group = Group(Task("t", "?"), [make_trajectory(sample=index, reward=1.0) for index in range(4)])
    (alarm,) = Watch(HealthConfig(), {"return_std"}).judge(1, spread_metrics([group.returns]))
    assert "the returns of every group are all equal" in alarm.note()
