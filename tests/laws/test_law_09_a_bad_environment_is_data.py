"""LAW 9: a bad environment, reward, score or plugin is data, not a crash: it costs itself, and nothing else."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import bad_tools
import pytest
from bad_tools import PATIENCE, RELEASE, SlowText, stubborn
from stage import BOTH_MODES, Stage, questions
from test_law_09_values_become_plain import (
    IMPATIENT,
    PATIENT,
    AsyncWorld,
    World,
    end,
    play,
    raising,
    sly_reward,
    why_dropped,
)

from agent_r1_core import DeclaredScore, Observation, ScoreFn, Step
from agent_r1_core.errors import UnknownComponent
from agent_r1_core.evaluation.evaluator import Prepared, evaluate_tasks
from agent_r1_core.plugins import PluginStatus, Registry
from agent_r1_core.rollout import Measurer
from agent_r1_core.testing import ScriptedPolicy
from agent_r1_core.trajectory import Trajectory

pytestmark = pytest.mark.usefixtures("released")


def test_text_that_no_file_can_hold_is_replaced_in_trajectories() -> None:
    """A lone surrogate, which JSON may spell, would be the end of a tracker."""
    half: Any = Observation([{"role": "user", "content": "half \ud83d a pair"}])
    steps = {"reset": lambda self, task: half, "step": lambda self, action: Step(half, terminated=True)}
    made = type("Half", (World,), steps)
    stage = Stage(ScriptedPolicy(["Tavelo"]), make_env=lambda services: made(None, services, end))
    (one,) = stage.play(questions(1)).groups[0].trajectories
    assert {message["content"] for message in (*one.turns[0].observation, *one.closing)} == {"half ? a pair"}


def test_an_opening_without_a_message_fails_its_own_episode() -> None:
    steps = {"reset": lambda self, task: Observation([]) if task.id == "q0" else World.reset(self, task)}
    assert "showed nothing; give the policy a message to begin with" in why_dropped(end, type("Mute", (World,), steps))


def test_a_working_directory_that_a_step_changes_is_put_back_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The files of the run stand below the one that it began in."""
    monkeypatch.chdir(tmp_path)
    play(lambda: os.chdir("/") or end())
    assert Path.cwd() == tmp_path
    told = "changed the working directory, which everything in this process shares; it was put back"
    assert re.search(rf"World\.step\(\)( or World\.reset\(\))? {told}", caplog.text), (
        "another episode may begin meanwhile"
    )


@BOTH_MODES
@pytest.mark.parametrize("made", [World, AsyncWorld])
@pytest.mark.parametrize("kind", list(bad_tools.ERRORS))
def test_whatever_an_environment_raises_fails_its_own_episode(made, kind, deterministic):
    reason = why_dropped(bad_tools.failing(kind), made, deterministic=deterministic)
    assert kind in reason or "cancelled itself" in reason


@pytest.mark.parametrize(
    ("made", "misbehave"),
    [(World, RELEASE.wait), (AsyncWorld, stubborn), (World, stubborn)],
    ids=["thread", "loop", "awaitable"],
)
def test_a_hung_environment_fails_its_own_episode(made: type[World], misbehave: Callable[[], Any]) -> None:
    assert "took longer than 0.8 seconds" in why_dropped(misbehave, made, config=IMPATIENT)


@pytest.mark.parametrize("kind", list(bad_tools.ERRORS))
@pytest.mark.parametrize("asynchronous", [False, True])
def test_whatever_a_reward_raises_fails_its_own_episode(kind: str, asynchronous: bool) -> None:
    reason = why_dropped(end, rewards=[sly_reward(bad_tools.failing(kind), asynchronous)])
    assert kind in reason or "cancelled itself" in reason


class Good(ScoreFn):
    """Half a point."""

    name = "good"
    declared = DeclaredScore("half a point", "0 to 1")

    def score(self, trajectory: Trajectory) -> Any:
        return 0.5


class Bad(Good):
    """The same, but what `bad` does of task q0."""

    name = "bad"

    def __init__(self, bad: Callable[[], Any]) -> None:
        super().__init__()
        self.bad = bad

    def score(self, trajectory: Trajectory) -> Any:
        return self.bad() if trajectory.task.id == "q0" else 0.5


class AsyncBad(Bad):
    """The same on the event loop."""

    async def score(self, trajectory: Trajectory) -> Any:
        value = super().score(trajectory)
        return await value if hasattr(value, "__await__") else value


def why_lacking(score: ScoreFn, timeout: float = PATIENCE) -> str:
    """Why q0, and no other episode, lacks the score in an evaluation of three tasks; it has the good one beside it."""
    stage = Stage(ScriptedPolicy(["go"]), make_env=lambda services: World(PATIENT, services, end), max_retries=0)
    measurer = Measurer(dict.fromkeys((score, Good()), timeout))
    found = stage.run(evaluate_tasks(stage.collector.collect, Prepared(questions(3)), scores=measurer))
    lacking, *others = (one.scores for one in found.episodes)
    assert lacking == {"good": 0.5}
    assert others == [{"bad": 0.5, "good": 0.5}] * 2
    assert found.result.metrics["score/bad"].n == 2
    (sentence,) = found.result.conditions
    start, _, why = sentence.partition(": it ")
    assert start == "1 of 3 episodes lacks the score bad, first q0/0"
    return why


@pytest.mark.parametrize(
    ("made", "misbehave"),
    [(Bad, lambda: RELEASE.wait(PATIENCE)), (AsyncBad, stubborn), (Bad, stubborn), (Bad, SlowText)],
    ids=["thread", "loop", "awaitable", "text"],
)
def test_a_hung_score_is_given_up(made: type[Bad], misbehave: Callable[[], Any]) -> None:
    assert why_lacking(made(misbehave), 0.8) == "took longer than 0.8 seconds; make it faster, or raise its timeout"


@pytest.mark.parametrize("kind", list(bad_tools.ERRORS))
@pytest.mark.parametrize("made", [Bad, AsyncBad])
def test_whatever_a_score_raises_its_episode_lacks_it(kind: str, made: type[Bad]) -> None:
    why = why_lacking(made(bad_tools.failing(kind)))
    assert why.startswith("failed with ")
    assert kind in why or "cancelled itself" in why


@pytest.mark.parametrize("made", [Bad, AsyncBad])
@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (lambda: "0.5", "is '0.5'; a score must be a number"),
        (lambda: [0.5], "is [0.5]; a score must be a number"),
        (lambda: raising(SystemExit), "failed with RuntimeError: SystemExit was raised"),
        (lambda: 1.5, "is 1.5, and its bounds are '0 to 1'"),
        (lambda: float("nan"), "is nan, and its bounds are '0 to 1'"),
    ],
    ids=["text", "list", "text_raises", "outside", "nan"],
)
def test_what_is_no_score_is_none(made: type[Bad], bad: Callable[[], Any], sentence: str) -> None:
    assert sentence in why_lacking(made(bad))


BAD_HOOK = "@hookimpl\ndef register_tools():\n    raise KeyError('index')\n"
BROKEN_PLUGINS = {
    "raises": "raise RuntimeError('no licence')",
    "leaves": "raise SystemExit(3)",
    "not_python": "def register_tools(:",
    "bad_hook": f"from agent_r1_core import hookimpl\nAGENT_R1_PLUGIN_API = 1\n\n{BAD_HOOK}",
}


def test_broken_plugins_are_reported_and_the_others_work(tmp_path: Path) -> None:
    files: Sequence[Path] = [tmp_path / f"{name}.py" for name in BROKEN_PLUGINS]
    for file, text in zip(files, BROKEN_PLUGINS.values(), strict=True):
        file.write_text(text)
    registry = Registry.discover(files)
    found = {plugin.name: plugin for plugin in registry.plugins}
    for name in BROKEN_PLUGINS:
        assert found[name].status is PluginStatus.FAILED
        assert found[name].reason
    assert registry.create("tool", "calculator").name == "calculator"
    with pytest.raises(UnknownComponent, match="raises"):
        registry.find("tool", "licensed_search")


def test_an_installed_plugin_that_nobody_uses_neither_runs_nor_takes_a_name(install, monkeypatch):
    install("aaa-rewards", rewards="raise SystemExit", other="raise SystemExit")
    ran: list[str] = []
    monkeypatch.setattr(EntryPoint, "load", lambda point, load=EntryPoint.load: ran.append(point.module) or load(point))
    registry = Registry.discover()
    assert registry.plugin_of(registry.find("reward", "exact_match")).distribution == "agent-r1"
    assert not [module for module in ran if module.startswith("aaa_")]
    statuses = {plugin.status for plugin in registry.plugins if plugin.distribution == "aaa-rewards"}
    assert statuses == {PluginStatus.CONFLICTING, PluginStatus.FAILED}
