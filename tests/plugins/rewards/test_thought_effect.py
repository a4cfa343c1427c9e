"""The reward `thought_effect`: what it asks the policy, what that is worth, and that a run asks the learner."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_r1_rewards.thoughts import ThoughtEffect

from agent_r1_core import Trajectory, train
from agent_r1_core.config import load_config
from agent_r1_core.contracts.reward import SamplingPolicy
from agent_r1_core.errors import ConfigError
from agent_r1_core.testing import RewardContract, make_trajectory


def said(*texts: str) -> Trajectory:
    return make_trajectory([([ord(" ")], [ord(one) for one in text]) for text in texts])


class TestThoughtEffect(RewardContract):
    component = ThoughtEffect
    cases = ((said("<think>red</think>left"), 0.0), (said("left"), 0.0))


def decode(ids: Sequence[int]) -> str:
    return "".join(map(chr, ids))


async def obedient(families: Sequence[Any]) -> list[list[list[float]]]:
    """Finds an action likely, -1 a token, whose first letter its thought holds; else -1.5 and after no thought -3."""

    def score(prompt: list[int], action: list[int]) -> float:
        thought = decode(prompt).rpartition("<think>")[2].partition("</think>")[0]
        return len(action) * (-1.0 if chr(action[0]) in thought else -1.5 if thought else -3.0)

    return [[[score(prompt, action) for prompt in prompts] for action in actions] for prompts, actions in families]


def test_it_pays_for_thoughts_that_decide() -> None:
    reward = ThoughtEffect(ThoughtEffect.Config(most=2.0))
    reward.connect_policy(SamplingPolicy(obedient, decode))
    episodes = [
        said("<think>left</think>left", "<think>red</think>right"),
        said("<think>right</think>right"),
        said("left"),
        said("<think>blue</think>up"),
    ]
    scores = asyncio.run(reward.score_group(episodes))
    assert [round(score, 3) for score in scores] == [0.125, 0.25, 0.0, 0.25]
    assert [getattr(score, "note", {}).get("nats") for score in scores] == [0.25, 0.5, None, 0.5]
    (alone,) = asyncio.run(reward.score_group(episodes[:1]))
    assert alone == 1.0, "an empty thought is all that there is to compare with"


def test_a_run_asks_the_learner(tmp_path: Path) -> None:
    keys = ["training.tasks_per_step=2", "training.samples_per_task=4", "training.steps=1", "threads=1"]
    keys += ["evaluation={every: 0, at_start: false, at_end: false}", f"run.dir={tmp_path}", "checkpoint.best=null"]
    (line,) = train("default", [*keys, "rewards=[exact_match, {name: thought_effect, weight: 0}]"]).metrics()
    assert 0 < line["reward/thought_effect"] <= 1
    assert line["reward/thought_effect/nats"] > 0


@pytest.mark.parametrize(
    ("key", "option"), [("training.max_staleness=1", "max_staleness"), ("algorithm=dapo", "extra_rollouts")]
)
def test_a_learner_that_is_busy_cannot_be_asked(key: str, option: str) -> None:
    with pytest.raises(ConfigError, match=f"training.{option}.* must be 0: the reward thought_effect asks the policy"):
        load_config("default", ["rewards=[exact_match, thought_effect]", key])
