"""The trajectories of one step as one Parquet file (zstd), a row per trajectory, readable by any data-frame library.

List columns hold ids, masks, log-probs (the engine's), and what an update knew of the tokens of all segments, joined;
`segment_lengths` separates them. `learner_logprobs` and `values` are NaN at ids where they are not known. A group's
samples are neighbours. After all groups come greedy baselines, whose column `baseline` is true, then episodes that were
dropped, whose status is `failed`: no mean may count either, and the update knew nothing of them. `demonstrated` is null
where the policy acted, else it says where a demonstration's observations came from (`tools` or `file`), and `logprobs`
are NaN at its actions. `player` says whose part of a game against itself the row is; the parts of player 1 follow those
of player 0. `examples` counts the examples before the task: their ids are there, with mask 0, and `messages`
has the episode alone.

Numbers in lists are float32. What varies between environments is JSON text; values that JSON lacks are written as their
`str`. The data of every page has a checksum, which readers compare; headers and footer have none. Readers raise a
RunError where a file is missing, damaged, or of another version.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core.contracts.markup import encodable
from agent_r1_core.contracts.token_numbers import TokenNumbers
from agent_r1_core.errors import NotOpened, RunError
from agent_r1_core.parquet import BoundedParquet, open_parquet
from agent_r1_core.runs.files import write_file
from agent_r1_core.runs.trajectory_row import NUMBERS, columns, json_text, row_of, trajectory_of
from agent_r1_core.trajectory import EndStatus, Task, Trajectory

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = b"4"
_KEY = b"agent_r1_trajectories"
_ROWS, _TOKENS = 1024, 2**19
"""Trajectories, and their tokens, that are in memory as rows at once: a row group, which readers of one row read."""


def write_trajectories(
    path: Path, step: int | None, trajectories: Iterable[Trajectory], numbers: TokenNumbers | None = None
) -> None:
    """Write the trajectories of `step`, whole or not at all; None: of an evaluation of a finished policy.

    Raises:
        RunError: writing fails (disk full, read-only).
        ValueError: `numbers`, what an update knew of a trajectory's tokens, are not as many as its ids.
    """
    write_tables(path, (table_of(step, part, numbers) for part in row_groups(trajectories)))


def write_tables(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write a file of these row groups, whole or not at all.

    Raises:
        RunError: writing fails (disk full, read-only).
    """
    import pyarrow.parquet as pq

    def write(temporary: Path) -> None:
        with pq.ParquetWriter(temporary, _schema(), compression="zstd", write_page_checksum=True) as file:
            for table in tables:
                file.write_table(table)

    write_file(path, write)


def table_of(step: int | None, trajectories: Iterable[Trajectory], numbers: TokenNumbers | None = None) -> pa.Table:
    """The rows of a row group.

    Raises:
        ValueError: `numbers` are not as many as a trajectory's ids.
    """
    import pyarrow as pa

    known = numbers or TokenNumbers()
    return pa.Table.from_pylist([row_of(step, one, known) for one in trajectories], schema=_schema())


def row_groups(trajectories: Iterable[Trajectory]) -> Iterator[list[Trajectory]]:
    """The trajectories of each row group; it looks into none of them."""
    part, tokens = list[Trajectory](), 0
    for trajectory in trajectories:
        part.append(trajectory)
        tokens += trajectory.tokens
        if len(part) == _ROWS or tokens >= _TOKENS:
            yield part
            part, tokens = [], 0
    if part:
        yield part


def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(list(columns().items()), metadata={_KEY: SCHEMA})


def read_trajectories(path: Path, dropped: bool = True) -> list[Trajectory]:
    """The trajectories of a file, as they were written; `dropped`: also those that failed, which come last."""
    with naming_damage(path):
        return [trajectory_of(row) for row in _rows(path, None, dropped)]


def read_token_numbers(path: Path, dropped: bool = True) -> list[dict[str, list[float] | None]]:
    """What the update knew of the tokens of a file's trajectories: the numbers that `TokenNumbers` names, one row per
    trajectory over the ids of all its segments; None: nothing of this kind.
    """
    with naming_damage(path):
        return [{name: row[name] for name in NUMBERS} for row in _rows(path, list(NUMBERS), dropped)]


def read_task_keys(path: Path) -> set[str]:
    """The keys, as `task_key` gives them, of the tasks that a file has episodes of which were not dropped."""
    with naming_damage(path):
        rows = _rows(path, ["task_id", "task"], dropped=False)
        tasks = ((row["task_id"], json.loads(row["task"])) for row in rows)
        return {_key(name, about["answers"], about["prompt"], about["seed"]) for name, about in tasks}


def task_key(task: Task) -> str:
    """Tells whether two tasks ask the same: by prompt and seed, and by id where no answer is accepted, since then an
    environment may tell them apart by that alone."""
    return _key(task.id, task.answers, task.prompt, task.seed)


def tasks_digest(tasks: Iterable[Task]) -> str:
    """sha256 of the tasks' ids, questions, answers and seeds."""
    digest = hashlib.sha256()
    for task in tasks:
        digest.update(encodable(json_text([task.id, task.prompt, task.answers, task.seed])).encode())
    return digest.hexdigest()


def _key(name: str, answers: Sequence[str], prompt: Any, seed: int | None) -> str:
    return encodable(json_text(["" if answers else name, prompt, seed]))


def _rows(path: Path, names: list[str] | None, dropped: bool) -> list[dict[str, Any]]:
    """The rows of a file, with these columns; None: all."""
    with parquet_file(path) as file:
        rows = file.read(names if names is None else [*names, "status"]).to_pylist()
    return rows if dropped else [row for row in rows if row["status"] != EndStatus.FAILED]


@contextmanager
def parquet_file(path: Path) -> Iterator[BoundedParquet]:
    """The file of trajectories, for readers of some columns or rows.

    Raises:
        RunError: it is of another version, or stands for more than is read.
    """
    with open_parquet(path, page_checksum_verification=True) as file:
        version = file.about.get(_KEY, b"")
        if version != SCHEMA:
            raise RunError(
                f"{path} holds trajectories of version {version.decode() if version.isdigit() else 'none'}, and this "
                f"agent-r1 reads version {SCHEMA.decode()}; use the agent-r1 that wrote it"
            )
        yield file


@contextmanager
def naming_damage(path: Path) -> Iterator[None]:
    """Turn what reading a missing or damaged file raises into a sentence about it.

    Raises:
        RunError: instead of what pyarrow raises, and of what rows raise that `_row` did not make.
    """
    import pyarrow as pa

    try:
        yield
    except NotOpened:
        raise
    except FileNotFoundError as error:
        raise RunError(f"there are no trajectories at {path}; list the folder to see which steps have some") from error
    except (OSError, pa.ArrowException, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise RunError(f"{path} cannot be read ({error.strerror}); make it readable and try again") from error
        raise RunError(f"{path} is not a whole file of trajectories; restore it from a copy, or delete it") from error
