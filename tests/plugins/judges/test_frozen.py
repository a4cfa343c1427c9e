"""A frozen model of the run as a judge, in an engine of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_r1_judges.asking import JudgeError
from agent_r1_judges.rubric import Judge

from agent_r1_core.contracts.reward import Reply
from agent_r1_core.errors import ConfigError
from agent_r1_core.evaluation.evaluator import EvaluationPlan
from agent_r1_core.testing import make_trajectory
from agent_r1_core.training.api import evaluate, resolve

ENGINE = Path(__file__).with_name("speaking_engine.py")


def judged(options: str, size: int) -> tuple[float, list[dict[str, Any]]]:
    """The mean of an evaluation, and what is noted of each episode."""
    few = ["engine=speaking", "tools=[]", f"tasks.eval.size={size}", f"rewards=[{{name: judge, {options}}}]"]
    found, _ = evaluate(EvaluationPlan(resolve("calculator", few, plugins=[ENGINE], training=False)))
    return found.result.metrics["reward/judge"].mean, [one.turns[-1].notes["judge"] for one in found.trajectories]


@pytest.mark.parametrize(("name", "grade"), [("tiny-worlds", 0.7), ("start", 0.2)])
def test_the_model_that_is_named_judges_and_its_calls_are_counted(name, grade, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    mean, notes = judged(f"frozen: {name}", 3)
    assert mean == pytest.approx(grade)
    assert len(notes) == 3
    assert all(note["prompt_tokens"] > 50 and note["completion_tokens"] > 5 for note in notes)


def test_a_reply_that_is_begun_says_yes_or_no_to_each_criterion_alone(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, (note,) = judged("frozen: tiny-worlds, prefill: true, criteria: {correct: Right., brief: Short.}", 1)
    assert note["grades"] == {"correct": 10, "brief": 0}
    assert note["reply"] == ["I say yes.", "I say no, because"]
    assert note["attempts"] == 2


async def test_a_frozen_judge_is_not_asked_again_what_it_would_say_again_and_nobody_else_without_an_engine() -> None:
    asked: list[str] = []

    async def ask(messages: Any, sampling: Any, begin: str = "") -> Reply:
        asked.append(begin)
        return Reply(f"{begin}many", 100, 1)

    judge = Judge(Judge.Config(frozen="start", prefill=True))
    judge.connect(ask)
    with pytest.raises(JudgeError, match=r"says neither yes nor no; .* \(1 attempt, 101 tokens\)"):
        await judge.score(make_trajectory(answer="4"))
    assert len(asked) == 1
    with pytest.raises(JudgeError, match="no engine for the frozen judge"):
        await Judge(Judge.Config(frozen="start")).score(make_trajectory(answer="4"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("frozen: start, key: KEY", "key .* has no effect"),
        ("frozen: start, options: {max_tokens: 9, top_p: 1}", "max_tokens alone"),
        ("frozen: start, options: {max_tokens: null}", "a number above 0"),
        ("frozen: start, prefill: true, scale: 5", "scale .* has no effect"),
        ("frozen: start, prefill: true, criteria: {a: Good., b: Good.}", "two say the same"),
    ],
)
def test_options_that_a_frozen_judge_cannot_have_are_refused(options: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve("calculator", [f"rewards=[{{name: judge, {options}}}]"])
