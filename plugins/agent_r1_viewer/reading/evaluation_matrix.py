"""EvaluationMatrix: a score of every question in every evaluation of a run: what was learnt, what was forgotten."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_r1_core.errors import RunError
from agent_r1_core.metrics.scorers import EXACT_MATCH, REWARD_MEAN, SCORE
from agent_r1_core.runs.evaluation_file import damaged_file, episodes_file, read_episodes, read_evaluation
from agent_r1_core.runs.reading.evaluation_scores import EvaluationScores
from agent_r1_core.runs.trajectory_file import naming_damage, parquet_file
from agent_r1_core.trajectory import EndStatus
from agent_r1_viewer.reading.episode_rows import LONGEST

_LARGEST = sys.float_info.max
Key = tuple[str, str]
"""A question: its set and its task's id."""


@dataclass
class Question:
    """A row of the matrix."""

    set: str
    task: str
    question: str
    """Cut where it is long, as the answers are."""
    answers: Sequence[str]


@dataclass
class EvaluationMatrix:
    """Questions by evaluations; several samples of a question count with their mean, and show their first."""

    score: str
    """The score that the cells have: the name of a reward, or `reward/mean` for the return."""
    scores: list[str] = field(default_factory=list)
    """All that can be chosen."""
    evaluations: list[EvaluationScores] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    cells: list[list[float | None]] = field(default_factory=list)
    """By question and evaluation; None: not asked, failed, or not finite."""
    rows: list[list[int | None]] = field(default_factory=list)
    """Where the question's first episode is in the evaluation's file of episodes."""
    predictions: list[list[str | None]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """A sentence for every evaluation whose records cannot be read, so that its column is empty, and for every file of
    episodes that cannot."""


def read_matrix(
    folder: Path,
    evaluations: Sequence[EvaluationScores],
    score: str | None = None,
    check: Callable[[Path], object] = Path,
) -> EvaluationMatrix:
    """The matrix of the evaluations in a folder.

    Args:
        score: what the cells show; None: exact match where it is a reward, else the return.
        check: is called with every file before it is read, and raises a RunError if it must not be.
    """
    columns: list[_Column | None] = []
    problems: list[str] = []
    for evaluation in evaluations:
        try:
            column = _Column(folder, evaluation, check)
            columns.append(column)
            problems += column.problems
        except RunError as error:
            problems.append(str(error))
            columns.append(None)
    names = dict.fromkeys(name for column in columns if column for name in column.scores)
    scores = sorted(names, key=lambda name: (name != EXACT_MATCH, name == REWARD_MEAN, name))
    matrix = EvaluationMatrix(score or (scores[0] if scores else REWARD_MEAN), scores, list(evaluations))
    matrix.problems = problems
    for key, question in _questions(columns).items():
        found = [column.episodes.get(key, []) if column else [] for column in columns]
        matrix.questions.append(question)
        matrix.cells.append([_mean(episodes, matrix.score) for episodes in found])
        matrix.predictions.append([episodes[0].get("prediction") if episodes else None for episodes in found])
        matrix.rows.append([column.rows.get(key) if column else None for column in columns])
    return matrix


class _Column:
    """The episodes of one evaluation."""

    def __init__(self, folder: Path, evaluation: EvaluationScores, check: Callable[[Path], object]) -> None:
        path = folder / f"{evaluation.name}.json"
        check(path)
        result = read_evaluation(path)
        check(episodes_file(path, result))
        self.episodes: dict[Key, list[dict[str, Any]]] = {}
        self.scores: dict[str, None] = {}
        try:
            for episode in read_episodes(path, result):
                self.episodes.setdefault((str(episode.get("set", "")), str(episode["task"])), []).append(episode)
                own = {SCORE.of(name): value for name, value in {**episode.get("scores", {})}.items()}
                episode["rewards"] = {**episode["rewards"], **own}
                self.scores.update(dict.fromkeys(episode["rewards"]))
        except (LookupError, TypeError) as error:
            raise damaged_file(path.with_suffix(".jsonl")) from error
        self.scores[REWARD_MEAN] = None
        self.rows: dict[Key, int] = {}
        self.problems: list[str] = []
        for group, name in evaluation.trajectories.items():
            try:
                check(folder / name)
                self.rows |= {(group, task): row for task, row in _first_rows(folder / name).items()}
            except RunError as error:  # its scores are known without them
                self.problems.append(str(error))


def _first_rows(path: Path) -> dict[str, int]:
    """The first row of every task."""
    with naming_damage(path), parquet_file(path) as file:
        rows: dict[str, int] = {}
        for row, task in enumerate(file.read(["task_id"], use_threads=False).column("task_id").to_pylist()):
            rows.setdefault(task, row)
        return rows


def _questions(columns: Sequence[_Column | None]) -> dict[Key, Question]:
    questions: dict[Key, Question] = {}
    for column in columns:
        for key, episodes in column.episodes.items() if column else ():
            if key not in questions:
                answers = [str(answer)[:LONGEST] for answer in episodes[0].get("answers") or ()]
                questions[key] = Question(*key, str(episodes[0].get("question", ""))[:LONGEST], answers)
    return questions


def _mean(episodes: Sequence[Mapping[str, Any]], score: str) -> float | None:
    scored = [one for one in episodes if one.get("status") != EndStatus.FAILED]
    values = [one.get("total") if score == REWARD_MEAN else one["rewards"].get(score) for one in scored]
    known = [float(value) for value in values if isinstance(value, int | float) and abs(value) <= _LARGEST]
    return sum(known) / len(known) if known else None
