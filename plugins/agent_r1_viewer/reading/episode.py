"""Episode: one trajectory of a file, with what the update knew of its tokens and who stands beside it.

Only its own row is kept in memory: a file of a long-context run is larger than what a viewer may take.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent_r1_core.errors import RunError
from agent_r1_core.opening import read_json
from agent_r1_core.parquet import BoundedParquet
from agent_r1_core.runs.trajectory_file import naming_damage, parquet_file
from agent_r1_core.runs.trajectory_row import NUMBERS, trajectory_of
from agent_r1_core.trajectory import Trajectory
from agent_r1_viewer.reading.episode_rows import PLACES, groups_of, read_columns

_BATCH = 16
"""Rows that are decoded at once."""
_TOKENS = ("ids", "mask", "logprobs", *NUMBERS, "segment_lengths", "prompt_lengths")
"""The columns of tokens."""


@dataclass(frozen=True)
class Replayed:
    """What `agent-r1 replay --keep` derived otherwise from an episode."""

    changed: Sequence[str]
    """Keys with their values."""
    advantages: Sequence[float] | None
    """As those of an episode."""


@dataclass(frozen=True)
class Episode:
    """One row of a file of trajectories."""

    trajectory: Trajectory
    advantages: Sequence[float] | None
    """One number per id of all segments; NaN where it is not known. None: not recorded, as of the next two."""
    learner_logprobs: Sequence[float] | None
    values: Sequence[float] | None
    row: int
    rows: int
    """How many episodes the file holds."""
    group: int | None
    """The place of its group; None of one that was dropped."""
    group_rows: Sequence[int]
    """The rows of its group, its baseline last."""
    group_samples: Sequence[int]
    """Which samples of the task they are, without the baseline."""
    replayed: Replayed | None = None


def read_episode(path: Path, row: int) -> Episode:
    """The episode in a row.

    Raises:
        RunError: the file is missing, damaged or of another version, or has no such row.
    """
    with naming_damage(path), parquet_file(path) as file:
        rows = file.metadata.num_rows
        if not 0 <= row < rows:
            raise RunError(f"{path} has no episode {row}: it holds {rows}, counted from 0; choose one of these")
        groups = groups_of(read_columns(file, PLACES))
        values = _rows(file, [row], file.names)[row]
        group = next((one for one in groups if row in one.rows or row == one.baseline), None)
        return Episode(
            trajectory_of(values),
            **{name: values.get(name) for name in NUMBERS},
            row=row,
            rows=rows,
            group=None if group is None else group.index,
            group_rows=() if group is None else (*group.rows, *([] if group.baseline is None else [group.baseline])),
            group_samples=() if group is None else group.samples,
        )


def with_replay(own: Episode, path: Path) -> Episode:
    """The episode, with what a replay kept of it in such a file; without, if it kept nothing, or of other tokens, or
    what it kept is damaged."""
    if own.group is None or not path.is_file():
        return own
    with suppress(RunError):
        kept = read_episode(path, own.row)
        with naming_damage(path.with_suffix(".json")):
            changed = [str(key) for key in read_json(path.with_suffix(".json"))["changed"]]
        ids = [[segment.ids for segment in one.trajectory.segments] for one in (own, kept)]
        if ids[0] == ids[1]:
            return replace(own, replayed=Replayed(changed, kept.advantages))
    return own


def read_trajectory_rows(path: Path, rows: Sequence[int]) -> list[Trajectory]:
    """The trajectories in some rows, without their ids.

    Raises:
        RunError: as `read_episode`.
    """
    with naming_damage(path), parquet_file(path) as file:
        found = _rows(file, rows, [name for name in file.names if name not in _TOKENS])
        return [trajectory_of({**found[row], **{name: [] for name in _TOKENS}}) for row in rows]


def _rows(file: BoundedParquet, rows: Sequence[int], columns: Sequence[str]) -> dict[int, dict[str, Any]]:
    """Some columns of some rows; only the row groups that hold them are read, a few rows at once."""
    found: dict[int, dict[str, Any]] = {}
    stop = 0
    for group in range(file.metadata.num_row_groups):
        start, stop = stop, stop + file.metadata.row_group(group).num_rows
        if not any(start <= row < stop for row in rows):
            continue
        for batch in file.batches(_BATCH, row_groups=[group], columns=columns, use_threads=False):
            here = [row for row in rows if start <= row < start + batch.num_rows]
            found |= {row: batch.slice(row - start, 1).to_pylist()[0] for row in here}
            start += batch.num_rows
            if len(found) == len(rows):
                return found
    return found
