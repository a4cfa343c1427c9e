"""The rows of a table: an episode without its texts, and a group of a step with what its samples have in common."""

from __future__ import annotations

import json
import statistics
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent_r1_core.errors import RunError
from agent_r1_core.parquet import BoundedParquet
from agent_r1_core.runs.trajectory_file import naming_damage, parquet_file
from agent_r1_core.trajectory import EndStatus, question

LONGEST = 2000
"""Characters of an answer or a reason in a table."""
COUNTED = ("turn_count", "tool_errors")
COLUMNS = (
    "task_id", "sample", "status", "reason", "answer", "return", "reward", "rewards", "action_tokens",
    "segment_lengths", "seconds", "baseline", *COUNTED,
)  # fmt: skip
PLACES = ("task_id", "sample", "status", "baseline")
"""What says where groups begin and end."""
_PLAIN = ("sample", "status", "reward", "action_tokens", "tool_errors", "seconds", "baseline")


@dataclass(frozen=True)
class EpisodeRow:
    """An episode without its texts."""

    row: int
    """Its place in the file."""
    sample: int
    task: str
    """The task's id."""
    status: str
    reason: str
    answer: str | None
    total: float
    """The return."""
    reward: float
    rewards: Mapping[str, float]
    """Each outcome reward, unweighted."""
    turns: int
    action_tokens: int
    tokens: int
    tool_errors: int
    seconds: float
    baseline: bool

    def to_json(self) -> dict[str, Any]:
        """Plain data; the total is called `return`."""
        values = asdict(self)
        return {("return" if name == "total" else name): value for name, value in values.items()}


@dataclass(frozen=True)
class EpisodeGroup:
    """The rows of one task's samples under one policy."""

    index: int
    rows: tuple[int, ...]
    samples: tuple[int, ...]
    """Which of the task's samples stand in these rows; those that were dropped are missing."""
    baseline: int | None
    """The row of the greedy baseline."""


def read_rows(path: Path, rows: Sequence[int] | None = None) -> list[EpisodeRow]:
    """The episodes of a file, or those in some rows, in the order of the file.

    Raises:
        RunError: the file is missing, damaged or of another version, or lacks a row.
    """
    with naming_damage(path), parquet_file(path) as file:
        table = read_columns(file, COLUMNS)
        return rows_of(table, range(table.num_rows) if rows is None else _checked(path, rows, table.num_rows))


def read_places(path: Path) -> list[EpisodeGroup]:
    """Which rows belong together.

    Raises:
        RunError: the file is missing, damaged or of another version.
    """
    with naming_damage(path), parquet_file(path) as file:
        return groups_of(read_columns(file, PLACES))


def read_columns(file: BoundedParquet, names: Iterable[str]) -> Any:
    """Columns of an open file as an Arrow table."""
    return file.read(list(names), use_threads=False)


def rows_of(table: Any, rows: Sequence[int]) -> list[EpisodeRow]:
    """The episodes in some rows of a table with `COLUMNS`."""
    return [_row(place, values) for place, values in zip(rows, taken(table, rows).to_pylist(), strict=True)]


def taken(table: Any, rows: Sequence[int]) -> Any:
    """Some rows of a table, in any order. Their numbers go to Arrow as bytes: to look at a list it imports pandas."""
    import pyarrow as pa

    if rows == range(table.num_rows):
        return table
    numbers = pa.py_buffer(array("q", rows))
    return table.take(pa.Array.from_buffers(pa.int64(), len(rows), [None, numbers]))


def groups_of(table: Any) -> list[EpisodeGroup]:
    """The groups of a table with the columns `PLACES`.

    A group's samples are neighbours, in ascending order; episodes that were dropped are in none.
    """
    tasks, samples, statuses, greedy = (table.column(name).to_pylist() for name in PLACES)
    groups: list[list[int]] = []
    baselines: dict[str, list[int]] = {}
    before: tuple[str, int] | None = None
    for row, (task, sample, status, baseline) in enumerate(zip(tasks, samples, statuses, greedy, strict=True)):
        if baseline:
            baselines.setdefault(task, []).append(row)
        elif status != EndStatus.FAILED:
            if before is None or task != before[0] or sample <= before[1]:
                groups.append([])
            groups[-1].append(row)
            before = (task, sample)
    greedily = {task: iter(rows) for task, rows in baselines.items()}  # of a task that comes twice, each has its own
    return [
        EpisodeGroup(
            index, tuple(rows), tuple(samples[row] for row in rows), next(greedily.get(tasks[rows[0]], iter(())), None)
        )
        for index, rows in enumerate(groups)
    ]


def _row(place: int, values: dict[str, Any]) -> EpisodeRow:
    answer = values["answer"]
    return EpisodeRow(
        row=place,
        task=values["task_id"],
        reason=values["reason"][:LONGEST],
        answer=None if answer is None else answer[:LONGEST],
        total=values["return"],
        rewards=json.loads(values["rewards"]),
        turns=values["turn_count"],
        tokens=sum(values["segment_lengths"]),
        **{name: values[name] for name in _PLAIN},
    )


def _checked(path: Path, rows: Sequence[int], count: int) -> Sequence[int]:
    missing = [row for row in rows if not 0 <= row < count]
    if missing:
        raise RunError(f"{path} has no episode {missing[0]}: it holds {count}, counted from 0; choose one of these")
    return rows


LONGEST_QUESTION = 500
"""Characters of a question in a table."""


@dataclass(frozen=True)
class GroupRow:
    """The samples of one task; means are over the samples, and no baseline counts."""

    group: int
    """Its place in the step."""
    task: str
    prompt: str
    """The question, or the last message of the user; a longer one is cut."""
    answers: Sequence[str]
    returns: Sequence[float]
    mean: float
    std: float
    """With n - 1; 0 of a single sample."""
    turns: float
    tokens: float
    statuses: Mapping[str, int]
    tool_errors: int
    rows: Sequence[int]
    samples: Sequence[int]
    """Which of the task's samples stand in these rows."""
    baseline: int | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def read_groups(path: Path) -> tuple[list[GroupRow], list[EpisodeRow]]:
    """The groups of a step, and the episodes that were dropped.

    Raises:
        RunError: the file is missing, damaged, or of another version.
    """
    with naming_damage(path), parquet_file(path) as file:
        table = read_columns(file, (*COLUMNS, "task"))
        rows = rows_of(table.drop_columns(["task"]), range(table.num_rows))
        groups = [_group(group, rows, table.column("task")) for group in groups_of(table)]
    return groups, [row for row in rows if row.status == EndStatus.FAILED and not row.baseline]


def _group(group: EpisodeGroup, rows: Sequence[EpisodeRow], tasks: Any) -> GroupRow:
    samples = [rows[row] for row in group.rows]
    about = json.loads(tasks[group.rows[0]].as_py())
    returns = [sample.total for sample in samples]
    return GroupRow(
        group=group.index,
        task=samples[0].task,
        prompt=question(about["prompt"])[:LONGEST_QUESTION],
        answers=[str(answer)[:LONGEST_QUESTION] for answer in about["answers"]],
        returns=returns,
        mean=statistics.fmean(returns),
        std=statistics.stdev(returns) if len(returns) > 1 else 0.0,
        turns=statistics.fmean(sample.turns for sample in samples),
        tokens=statistics.fmean(sample.tokens for sample in samples),
        statuses=dict(Counter(sample.status for sample in samples)),
        tool_errors=sum(sample.tool_errors for sample in samples),
        rows=group.rows,
        samples=group.samples,
        baseline=group.baseline,
    )
