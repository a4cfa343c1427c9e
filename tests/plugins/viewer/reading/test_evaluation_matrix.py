"""Questions by evaluations: what counts in a cell, and what is shown of a question that was asked several times."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_r1_viewer.reading.evaluation_matrix import EvaluationMatrix, read_matrix

from agent_r1_core.runs.reading.evaluation_scores import RecordedEvaluations
from agent_r1_core.runs.run import Run
from agent_r1_core.runs.trajectory_file import write_trajectories
from agent_r1_core.testing.trajectories import make_task, make_trajectory


def asked(task: str, score: float | None, total: float = 0.0, **more: Any) -> dict[str, Any]:
    """One episode's record; without a score it failed."""
    rewards = {} if score is None else {"exact_match": score}
    about = {"task": task, "set": "", "question": f"What is {task}?", "answers": [task.upper(), 7]}
    status = "failed" if score is None else "terminated"
    return {**about, "prediction": f"{task} {score}", "status": status, "rewards": rewards, "total": total, **more}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path, "first", {}, [])


def evaluate(run: Run, step: int, lines: Sequence[Mapping[str, Any]], **more: Any) -> None:
    estimate = {"mean": 0.5, "low": None, "high": None, "method": "wilson", "n": 4}
    run.write_evaluation(f"step_{step:06d}", {"metrics": {"exact_match": estimate}, **more}, step, lines)


def matrix(run: Run, score: str | None = None) -> EvaluationMatrix:
    evaluations, problems = RecordedEvaluations(run.path / "evaluations").all()
    assert problems == []
    return read_matrix(run.path / "evaluations", evaluations, score)


def test_several_samples_count_with_their_mean_and_failed_ones_not_at_all(run: Run) -> None:
    evaluate(run, 0, [asked("a", 1.0, 3.0), asked("a", 0.0, 1.0), asked("a", None), asked("b", None)])
    evaluate(run, 2, [asked("b", 0.0, -1.0), asked("c", 1.0, 2.0, rewards={"exact_match": 1.0, "format": 0.5})])
    found = matrix(run)
    assert (found.score, found.scores) == ("exact_match", ["exact_match", "format", "reward/mean"])
    assert [(one.set, one.task, one.question, one.answers) for one in found.questions] == [
        ("", task, f"What is {task}?", [task.upper(), "7"]) for task in "abc"
    ]
    assert found.cells == [[0.5, None], [None, 0.0], [None, 1.0]]
    assert found.predictions == [["a 1.0", None], ["b None", "b 0.0"], [None, "c 1.0"]]
    assert found.rows == [[None, None]] * 3
    assert matrix(run, "reward/mean").cells == [[2.0, None], [None, -1.0], [None, 2.0]]
    assert matrix(run, "format").cells == [[None, None], [None, None], [None, 0.5]]
    assert matrix(run, "gone").cells == [[None, None]] * 3


def test_a_question_leads_to_its_first_episode_in_its_own_set(run: Run) -> None:
    folder = run.path / "evaluations"
    folder.mkdir(exist_ok=True)
    files = {"": "step_000001.parquet", "hard": "step_000001.hard.parquet"}
    rows = {"": ["b", "b", "a", "a"], "hard": ["a"]}
    for group, file in files.items():
        episodes = [make_trajectory(task=make_task(task), sample=sample) for sample, task in enumerate(rows[group])]
        write_trajectories(folder / file, 1, episodes)
    lines = [asked("a", 1.0), asked("b", 0.0), asked("a", 0.0, set="hard")]
    evaluate(run, 1, lines, trajectories=files)
    found = matrix(run)
    assert [(one.set, one.task) for one in found.questions] == [("", "a"), ("", "b"), ("hard", "a")]
    assert (found.cells, found.rows) == ([[1.0], [0.0], [0.0]], [[2], [0], [0]])
    (folder / files["hard"]).write_bytes(b"PAR1")
    found = matrix(run)
    assert (found.cells, found.rows) == ([[1.0], [0.0], [0.0]], [[2], [0], [None]])
    assert "hard.parquet is not a whole file of trajectories" in found.problems[0]


def test_a_damaged_evaluation_is_an_empty_column_and_a_sentence(run: Run) -> None:
    evaluate(run, 1, [asked("a", 1.0)])
    evaluate(run, 2, [asked("a", 0.0)])
    evaluate(run, 3, [{"question": "Whose task?"}])
    evaluate(run, 4, [])
    evaluate(run, 5, [asked("a", 0.0)])
    shutil.copy(run.path / "evaluations" / "step_000001.jsonl", run.path / "evaluations" / "step_000002.jsonl")
    found = matrix(run)
    assert found.cells == [[1.0, None, None, None, 0.0]]
    assert found.predictions == [["a 1.0", None, None, None, "a 0.0"]]
    another, taskless, without = found.problems
    assert "step_000002.jsonl does not hold the episodes" in another
    assert "step_000003.jsonl is damaged" in taskless
    assert "step_000004.json keeps no episodes" in without
