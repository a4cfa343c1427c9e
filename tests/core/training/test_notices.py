"""What a listener hears of a step's failed episodes and of metrics, and trackers of metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import small_run
from small_run import Notes, overrides

from agent_r1_core import CallRecord, ComponentLoadError, EndStatus, EpisodeError, RunInfo, Tracker, Trajectory, train
from agent_r1_core.metrics.catalogue import Catalogue
from agent_r1_core.rollout import RolloutResult
from agent_r1_core.testing import make_task, make_trajectory, tiny_model_folder
from agent_r1_core.training.notices import StepNotes, Trackers


def failed(sample: int, reason: str) -> Trajectory:
    """An episode of task 2, which is also a number in the reasons."""
    return make_trajectory(task=make_task("2"), sample=sample, status=EndStatus.FAILED, reason=reason)


def test_each_cause_of_failed_episodes_is_told_once_with_its_count() -> None:
    slow = [failed(n, f"reward judge of episode 2/{n} took longer than 20 seconds") for n in range(2)]
    stuck = [failed(n, f"Maze.step() took longer than 2.5 seconds in episode 7/2/{n}/3") for n in range(3)]
    single = failed(5, "reward gold of task 2 is nan")
    several = [failed(n, f"reward odd of episode 2/{n} is {word}") for n, word in enumerate(("red", "blue", "green"))]
    listener = Notes()
    notes = StepNotes(listener, Catalogue())
    notes.failures(4, RolloutResult(dropped=[*slow, single, *stuck, *several]), played_before=True)
    with pytest.raises(EpisodeError) as ended:
        notes.failures(5, RolloutResult(dropped=slow), played_before=False)
    assert listener.said == [
        "step 4: 9 of 9 episodes failed permanently and are left out: 3 episodes: Maze.step() took longer than 2.5 "
        "seconds in episode 7/2/0/3 | 2 episodes: reward judge of episode 2/0 took longer than 20 seconds | 1 episode: "
        "reward gold of task 2 is nan | and 3 more causes"
    ]
    assert str(ended.value) == (
        "step 5: all 2 episodes failed at every attempt: reward judge of episode 2/0 took longer than 20 seconds"
    )


def test_demonstrations_whose_calls_fail_are_told_once_from_a_tenth_of_their_calls_on() -> None:
    def demonstrated(*errors: str | None) -> Trajectory:
        one = make_trajectory()
        one.demonstrated = "tools"
        one.turns[0].calls = [CallRecord("calc", {}, error) for error in errors]
        return one

    listener = Notes()
    notes = StepNotes(listener, Catalogue())
    notes.demonstrations(1, [demonstrated("gone", *[None] * 10)])
    played = demonstrated("gone")
    played.demonstrated = None
    notes.demonstrations(2, [played])
    for step in (3, 4):
        notes.demonstrations(
            step, [demonstrated("gone", None), demonstrated("there is no tool 'calc'"), demonstrated("gone")]
        )
    assert listener.said == [
        "step 3: 3 of 4 tool calls of the demonstrations ended in errors, such as calc: gone; the policy learns such "
        "calls: mend the file, or the recipe's tools"
    ]


class Recorder(Tracker):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, dict[str, float]]] = []

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.seen.append((step, dict(metrics)))


class Broken(Recorder):
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        super().log(step, metrics)
        raise OSError("disk full")


class Missing(Tracker):
    def open(self, run: RunInfo) -> None:
        raise ComponentLoadError("tracker missing needs a package; install it")


def test_a_broken_tracker_is_reported_once_and_the_others_go_on_but_one_that_is_missing_stops_the_run() -> None:
    broken, recorder, reports = Broken(), Recorder(), list[str]()
    trackers = Trackers([broken, recorder], reports.append)
    trackers.open(RunInfo("run", "nowhere", {}))
    trackers.log(1, {"loss": 1.0}, [])
    trackers.log(2, {"loss": 0.5}, [])
    trackers.close()
    assert [step for step, _ in recorder.seen] == [1, 2]
    assert [step for step, _ in broken.seen] == [1]
    (report,) = reports
    assert "disk full" in report
    with pytest.raises(ComponentLoadError, match="install it"):
        Trackers([Missing()], print).open(RunInfo("run", "nowhere", {}))


PLUGIN = '''
"""A tool that records how long its answers are, and an algorithm that reports something without a word."""
from dataclasses import replace

from agent_r1_core import AlgorithmSpec, Metric, ToolSpec, hookimpl, tool
from agent_r1_grpo.grpo import GRPO

AGENT_R1_PLUGIN_API = 1


@tool
def echo(text: str, context) -> str:
    """Say it again."""
    context.metrics["letters"] = len(text)
    return text


echo.metrics = (Metric("letters", "letters of an answer"),)


class Chatty(GRPO):
    """GRPO with a metric that it declares, one that it does not, and a warning."""

    metrics = (Metric("declared", "always 1"),)

    def advantages(self, batch):
        return replace(super().advantages(batch), metrics={"declared": 1.0, "secret": 2.0}, warnings=("beware",))


@hookimpl
def register_tools():
    return [ToolSpec("echo", ":echo", "echoes")]


@hookimpl
def register_algorithms():
    return [AlgorithmSpec("chatty", ":Chatty", "reports")]

'''


@pytest.mark.parametrize("algorithm", ["chatty", "ppo"])
def test_every_metric_of_a_run_is_declared_or_named(tmp_path: Path, algorithm: str) -> None:
    plugin, notes, chatty = tmp_path / "chatty.py", Notes(), algorithm == "chatty"
    plugin.write_text(PLUGIN)
    tiny_model_folder(tmp_path / "model")
    keys = overrides(tmp_path, 2, algorithm=algorithm, tools="[echo]")
    run = train("default", keys, plugins=[small_run.PLUGIN, plugin], listener=notes)
    told = [note.partition(" are ")[0] for note in notes.said if "not declared" in note]
    assert told == ["the metrics update/secret"] * chatty
    assert [note for note in notes.said if "beware" in note] == ["step 1: beware"] * chatty
    catalogue = {entry["name"]: entry for entry in json.loads((run.path / "metric_catalogue.json").read_text())}
    assert catalogue["tools/echo/letters"]["meaning"] == "letters of an answer"
    assert ("update/declared" in catalogue) == chatty
