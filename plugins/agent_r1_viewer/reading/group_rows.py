"""GroupRow: a group of a step in a table: its task, and what its samples have in common or differ in."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent_r1_core.runs.trajectory_file import naming_damage, parquet_file
from agent_r1_core.trajectory import EndStatus, question
from agent_r1_viewer.reading.episode_rows import COLUMNS, EpisodeGroup, EpisodeRow, groups_of, read_columns, rows_of

LONGEST = 500
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
        """Plain data."""
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
        prompt=question(about["prompt"])[:LONGEST],
        answers=[str(answer)[:LONGEST] for answer in about["answers"]],
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
