"""`agent-r1 rollout` plays real episodes with a random model of a few thousand parameters."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_r1_core.testing import tiny_model_folder
from agent_r1_core.work import watched_by

SETTINGS = ("calculator", "engine.max_new_tokens=8", "env.max_turns=2", "threads=1")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model_folder(tmp_path_factory.mktemp("models") / "noise")


def test_json_holds_ids_mask_and_rewards_of_every_episode(agent_r1: Callable[..., Any], model: Path) -> None:
    done = agent_r1("rollout", *SETTINGS, "--model", model, "-n", 2, "-s", 2, "--task", 1, "--json")
    assert done.exit_code == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["schema"] == 1
    episodes = answer["episodes"]
    assert [episode["sample"] for episode in episodes] == [0, 1, 0, 1]
    for episode in episodes:
        assert 1 <= len(episode["turns"]) <= 2
        assert set(episode["rewards"]) == {"exact_match", "format"}
        (segment,) = episode["segments"]
        assert len(segment["ids"]) == len(segment["mask"])
        assert 0 < sum(segment["mask"]) <= 16


def test_off_a_terminal_the_episodes_are_marked_text(agent_r1: Callable[..., Any], model: Path) -> None:
    done = agent_r1("rollout", *SETTINGS, "--model", model, "-n", 1, "--greedy")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("[[sampled by the policy (action mask 1)]]")
    assert "\nepisode sum." in done.stdout
    assert "  turn 0: reward 0.000" in done.stdout
    assert "\x1b" not in done.stdout


def test_whoever_watches_is_told_what_takes_long(agent_r1: Callable[..., Any], model: Path) -> None:
    ended: dict[str, str] = {}
    with watched_by(lambda work: ended.update({work.what: work.count()} if work.ended else {})):
        done = agent_r1("rollout", *SETTINGS, "--model", model, "-n", 2, "-s", 2)
    assert done.exit_code == 0, done.stderr
    loading = f"loading {model}"
    assert list(ended) == [loading, "starting tools and engine", "playing"]
    assert ended[loading].endswith(" tensors")
    assert ended["playing"] == "4 episodes"


def test_the_same_seed_plays_the_same_episode(agent_r1: Callable[..., Any], model: Path) -> None:
    played = [agent_r1("rollout", *SETTINGS, "--model", model, "-n", 1, f"seed={seed}").stdout for seed in (0, 0, 1)]
    assert played[0] == played[1] != played[2]


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (("--task", 5000), "none has the index 5000", 1),
        (("engine.temprature=1",), "did you mean engine.temperature?", 2),
        (("tools=[nowhere]",), "no tool is called 'nowhere'", 3),
        (("--model", "./no-such-model"), "neither a Hugging Face folder", 1),
    ],
)
def test_failures_are_one_sentence(agent_r1: Callable[..., Any], arguments: Any, words: str, code: int) -> None:
    done = agent_r1("rollout", *SETTINGS, *arguments)
    assert done.exit_code == code
    assert words in done.stderr
    assert done.stderr.count("error:") == 1
    assert done.stdout == ""
