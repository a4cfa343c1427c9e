"""LAW 9: a score of an evaluation that hangs, raises or gives no number costs itself, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bad_tools
import pytest
from bad_tools import PATIENCE, RELEASE, stubborn
from stage import Stage, questions
from test_law_09_values_become_plain import PATIENT, SlowText, World, end, raising

from agent_r1_core import DeclaredScore, ScoreFn
from agent_r1_core.evaluation.evaluator import Evaluation, Prepared, evaluate_tasks
from agent_r1_core.rollout import Measurer
from agent_r1_core.testing import ScriptedPolicy
from agent_r1_core.trajectory import Trajectory

pytestmark = pytest.mark.usefixtures("released")


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


def evaluate(score: ScoreFn, timeout: float) -> Evaluation:
    """An evaluation of three tasks, with a good score beside this one."""
    stage = Stage(ScriptedPolicy(["go"]), make_env=lambda services: World(PATIENT, services, end), max_retries=0)
    measurer = Measurer(dict.fromkeys((score, Good()), timeout))
    return stage.run(evaluate_tasks(stage.collector.collect, Prepared(questions(3)), scores=measurer))


def why_lacking(score: ScoreFn, timeout: float = PATIENCE) -> str:
    """Why q0, and no other episode, lacks the score; it has all others."""
    found = evaluate(score, timeout)
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
    def fail() -> Any:
        raise bad_tools.ERRORS[kind]()

    why = why_lacking(made(fail))
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
