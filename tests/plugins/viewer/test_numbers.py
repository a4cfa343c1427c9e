"""The numbers that are served are those of the files: of GRPO, of PPO, and of a run whose context is rewritten."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest
from agent_r1_viewer.answers import Answers
from agent_r1_viewer.episode_answer import tokens_answer
from agent_r1_viewer.reading.episode import Episode

from agent_r1_core.contracts.json_text import to_json
from agent_r1_core.evaluation.result_file import ResultFile
from agent_r1_core.runs.reading.found_runs import FoundRuns
from agent_r1_core.runs.run import Run
from agent_r1_core.runs.trajectory_file import read_token_numbers
from agent_r1_core.testing import make_trajectory
from agent_r1_core.trajectory import EndStatus, Trajectory

STEP = 2
RUNS = pytest.mark.parametrize("name", ["grpo", "ppo", "summary"])


class Asked:
    """A run, as the viewer answers about it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._answers, self._name = Answers(FoundRuns([folder])), name
        self.run = Run.open(folder / name)

    def __call__(self, path: str = "", **query: str) -> Any:
        parts = ["runs", self._name, *path.split("/")] if path else ["runs", self._name]
        answer = self._answers.answer(parts, query)
        assert isinstance(answer, dict)
        return json.loads(to_json(answer))


@RUNS
def test_metrics_and_scores(recorded: Path, name: str) -> None:
    asked = Asked(recorded, name)
    lines, served, about = asked.run.metrics(), asked("metrics"), asked()
    assert served["steps"] == [1, 2, 3]
    for place, line in enumerate(lines):
        shown = {key: values[place] for key, values in served["values"].items() if values[place] is not None}
        assert shown | {"step": line["step"]} == line
    assert about["summary"]["state"] == "finished"
    for one in about["evaluations"]:
        recorded_scores = asked.run.evaluations()[one["name"]]["metrics"]
        for metric, score in one["scores"][""].items():
            expected = recorded_scores[metric]
            assert score == {
                "value": expected["mean"],
                **{key: expected.get(key) for key in ("low", "high", "n", "asked")},
            }
    assert about["summary"]["best"]["value"] == max(
        one["scores"][""]["exact_match"]["value"] for one in about["evaluations"]
    )


@RUNS
def test_groups(recorded: Path, name: str) -> None:
    asked = Asked(recorded, name)
    whole = asked.run.read_trajectories(STEP)
    step = asked(f"steps/{STEP}")
    assert len(step["groups"]) == 4
    for group in step["groups"]:
        members = [whole[row] for row in group["rows"]]
        assert {one.task.id for one in members} == {group["task"]}
        returns = [one.total_reward for one in members]
        assert group["returns"] == returns
        assert (group["mean"], group["std"]) == (statistics.fmean(returns), statistics.stdev(returns))
        assert group["turns"] == statistics.fmean(len(one.steps) for one in members)
        assert group["tokens"] == statistics.fmean(one.tokens for one in members)
        assert sum(group["statuses"].values()) == len(members)
        shown = asked(f"steps/{STEP}/groups/{group['group']}")["episodes"]
        assert [one["messages"] for one in shown] == [one.messages() for one in members]
        assert [one["return"] for one in shown] == returns
        assert [one["rewards"] for one in shown] == [one.rewards for one in members]
    counted = [row for group in step["groups"] for row in group["rows"]]
    trained = [row for row, one in enumerate(whole) if one.status is not EndStatus.FAILED and not one.baseline]
    assert counted == trained


def test_tokens_that_nobody_sampled_have_no_log_prob() -> None:
    one = make_trajectory((((1, 2), (3, 4)),), logprobs=[[math.nan, math.nan]], demonstrated="tools")
    episode = Episode(one, None, None, None, row=0, rows=1, group=0, group_rows=(0,), group_samples=(0,))
    assert tokens_answer(episode, 0, 0, None)["logprob"] == [None] * 4


@RUNS
def test_tokens(recorded: Path, name: str) -> None:
    asked = Asked(recorded, name)
    whole, known = asked.run.read_trajectories(STEP), read_token_numbers(asked.run.trajectory_file(STEP))
    for row, (trajectory, numbers) in enumerate(zip(whole, known, strict=True)):
        served = asked(f"steps/{STEP}/episodes/{row}")
        assert (served["return"], served["status"]) == (trajectory.total_reward, trajectory.status.value)
        assert [one["length"] for one in served["segments"]] == [len(one.ids) for one in trajectory.segments]
        tokens = {key: _joined(served, key) for key in served["segments"][0]["tokens"]}
        assert tokens["id"] == [token for segment in trajectory.segments for token in segment.ids]
        mask = [sampled for segment in trajectory.segments for sampled in segment.mask]
        engine = [value for segment in trajectory.segments for value in segment.logprobs]
        assert tokens["mask"] == mask
        assert tokens["logprob"] == [value if sampled else None for value, sampled in zip(engine, mask, strict=True)]
        for key, column in (("advantage", "advantages"), ("learner", "learner_logprobs"), ("value", "values")):
            expected = numbers[column] or [None] * len(mask)
            where = mask if key == "learner" else [1] * len(mask)
            assert tokens[key] == [
                value if value == value and sampled else None for value, sampled in zip(expected, where, strict=True)
            ]
        _sampled_texts_are_the_turns(served, trajectory)
        known_here = {"advantages": "advantages", "learner": "learner_logprobs", "values": "values"}
        assert served["known"] == {
            "text": True, "version": True, **{key: numbers[column] is not None for key, column in known_here.items()}
        }  # fmt: skip
    assert any(numbers["advantages"] for numbers in known)
    assert any(numbers["values"] for numbers in known) == (name == "ppo")
    if name != "ppo":  # whose policy waits for its critic
        credited = any(value for numbers in known for value in numbers["advantages"] or ())
        assert any(numbers["learner_logprobs"] for numbers in known) == credited
    segments = max(len(one.segments) for one in whole)
    assert (segments > 1) == (name == "summary")


def _sampled_texts_are_the_turns(served: dict[str, Any], trajectory: Trajectory) -> None:
    """A turn's text is that of its tokens, without the one that ends it."""
    for turn in trajectory.turns:
        tokens = served["segments"][turn.segment]["tokens"]
        spelled = [
            text for text in tokens["text"][turn.start : turn.stop] if text not in ("<|im_end|>", "<|endoftext|>")
        ]
        assert "".join(spelled).strip() == turn.text.strip()
        assert {tokens["version"][place] for place in range(turn.start, turn.stop)} == {v for v, _ in turn.versions}


def _joined(served: dict[str, Any], key: str) -> list[Any]:
    return [value for segment in served["segments"] for value in segment["tokens"][key]]


@RUNS
def test_evaluations(recorded: Path, name: str) -> None:
    asked = Asked(recorded, name)
    matrix = asked("evaluations", score="reward/mean")
    files = [ResultFile.open(asked.run.path / one["name"]) for one in matrix["evaluations"]]
    assert len(matrix["questions"]) == 12
    for place, file in enumerate(files):
        for column, episode in enumerate(file.episodes):
            assert matrix["questions"][column]["task"] == episode.task
            assert matrix["cells"][column][place] == episode.total
            assert matrix["predictions"][column][place] == episode.prediction
            row = matrix["rows"][column][place]
            shown = asked(f"evaluations/{matrix['evaluations'][place]['name']}/episodes/{row}")
            assert (shown["task"]["id"], shown["return"], shown["answer"]) == (
                episode.task, episode.total, episode.prediction
            )  # fmt: skip
