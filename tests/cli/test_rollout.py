"""`agent-r1 rollout` plays real episodes with a random model of a few thousand parameters."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_r1_core import train
from agent_r1_core.contracts.success import PER_TASK
from agent_r1_core.work import watched_by

SETTINGS = ("calculator", "engine.max_new_tokens=8", "env.max_turns=2", "threads=1")
QUIET = ("evaluation.every=0", "evaluation.at_start=false", "evaluation.at_end=false", "checkpoint.best=null")
SMALL = (*QUIET, "threads=1", "training.steps=1", "training.tasks_per_step=2", "training.samples_per_task=1")


def test_json_holds_ids_mask_and_rewards_of_every_episode(succeed: Callable[..., Any], noise: Path) -> None:
    done = succeed("rollout", *SETTINGS, "--model", noise, "-n", 2, "-s", 2, "--task", 1, "--json")
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


def test_off_a_terminal_episodes_are_marked_text_and_whoever_watches_is_told_what_takes_long(
    succeed: Callable[..., Any], noise: Path
) -> None:
    ended: dict[str, str] = {}
    with watched_by(lambda work: ended.update({work.what: work.count()} if work.ended else {})):
        done = succeed("rollout", *SETTINGS, "--model", noise, "-n", 2, "-s", 2, "--greedy")
    assert done.stdout.startswith("[[sampled by the policy (action mask 1)]]")
    assert "\nepisode sum." in done.stdout
    assert "  turn 0: reward 0.000" in done.stdout
    assert "\x1b" not in done.stdout
    loading = f"loading {noise}"
    assert list(ended) == [loading, "starting tools and engine", "playing"]
    assert ended[loading].endswith(" tensors")
    assert ended["playing"] == "4 episodes"


OWN = ("rollout", "calculator", "threads=1", "--set", "train", "-n", 6, "-s", 4)


def test_successes_become_a_file_that_sft_learns_from(
    agent_r1: Callable[..., Any], succeed: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "own.jsonl"
    done = succeed(*OWN, "--keep-successes", file, "--per-task", 2)
    assert done.stdout == ""
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert f"{file}: {len(records)} conversations, from " in done.stderr
    assert 1 <= len(records) <= 12
    for record in records:
        (answer,) = record["answers"]
        assert record["messages"][-1]["content"].endswith(f"<answer>{answer}</answer>")
    settings = [
        *SMALL,
        f"tasks.train={{name: conversations, path: {file}}}",
        "algorithm={name: sft, observations: file}",
    ]
    run = train("calculator", [*settings, f"run.dir={tmp_path}"])
    (line,) = run.metrics()
    assert (line["rollout/episodes"], line["rollout/failed"], line["reward/exact_match"]) == (2, 0, 1)
    before = file.read_bytes()
    again = agent_r1(*OWN, "--keep-successes", file)
    assert again.exit_code == 1
    assert f"error: {file} exists already; remove it, or choose another name" in again.stderr
    assert file.read_bytes() == before


def test_where_nothing_succeeds_nothing_is_written_and_what_no_file_can_show_is_counted(
    agent_r1: Callable[..., Any], noise: Path, tmp_path: Path, succeed: Callable[..., Any]
) -> None:
    file = tmp_path / "own.jsonl"
    done = agent_r1("rollout", *SETTINGS, "--model", noise, "-s", 2, "--keep-successes", file)
    assert done.exit_code == 1
    assert f"error: 0 of 4 episodes succeeded, none is kept, and {file} is not written" in done.stderr
    assert list(tmp_path.iterdir()) == []
    # Noise that every bound calls a success: its actions are cut by their budget.
    file = tmp_path / "own.jsonl"
    done = agent_r1("rollout", *SETTINGS, "--model", noise, "-n", 4, "--keep-successes", file, "--success-at", -1)
    assert "left out" in done.stderr
    assert " successes: " in done.stderr
    for alone in (("--per-task", 2), ("--success-at", 0.5)):
        refused = agent_r1("rollout", *SETTINGS, *alone)
        assert (refused.exit_code, "give --keep-successes too" in " ".join(refused.stderr.split())) == (2, True)
    assert f"(default: {PER_TASK})" in agent_r1("rollout", "--help").stdout
    own = succeed("rollout", "calculator", "threads=1", "-n", 6, "-s", 4, "--keep-successes", file)
    assert "its tasks are those of the set eval, which evaluation asks too; --set train takes" in own.stderr


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (("--keep-successes", "no/such/folder/own.jsonl"), "it needs the name of a file in a folder that exists", 1),
        (("--task", 5000), "none has the index 5000", 1),
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
