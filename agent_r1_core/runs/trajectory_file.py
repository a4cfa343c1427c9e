"""The trajectories of one step as one Parquet file (zstd), a row per trajectory, readable by any data-frame library.

List columns hold the ids, masks, log-probs and advantages of all segments, joined; `segment_lengths` separates them.
Greedy baselines come after the other trajectories; their column `baseline` is true, and they have no advantages.
Log-probs and advantages are float32. What varies between environments is JSON text; values that JSON lacks are written
as their `str`. The data of every page has a checksum, which readers compare; headers and footer have none. Files of
versions 1 and 2 can be read too: what a turn of version 1 kept in `info` becomes the fields of today, and no turn of
either is a summary.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from agent_r1_core.contracts.encodable import encodable
from agent_r1_core.errors import RunError
from agent_r1_core.runs.files import write_file
from agent_r1_core.trajectory import CallRecord, EndStatus, Message, Segment, Task, Trajectory, Turn

SCHEMA = b"3"
READABLE = (b"1", b"2", SCHEMA)
_KEY = b"agent_r1_trajectories"
_PLAIN = ("sample", "reason", "bootstrap", "reward", "seed", "policy_version", "attempts", "seconds", "tool_seconds")
_TURN = (
    "index", "segment", "start", "stop", "finish", "reward", "rewards", "state_key", "new_context", "versions",
    "errors", "success", "tool_seconds", "info", "purpose",
)  # fmt: skip
_ROWS = 1024
"""Trajectories that are in memory as rows at once."""
_ONCE_INFO = ("calls", "errors", "success", "tool_seconds")
"""Fields of a turn that version 1 kept in `info`."""


def write_trajectories(
    path: Path, step: int, trajectories: Iterable[Trajectory], advantages: Mapping[str, Sequence[float]] | None = None
) -> None:
    """Write the trajectories of `step`, whole or not at all.

    Args:
        path: The file; an existing one is replaced.
        step: The training step, repeated in every row.
        trajectories: Any number of them, read once.
        advantages: By trajectory id, one number per token id of all its segments. Trajectories that were not
            trained on are absent.

    Raises:
        RunError: writing fails (disk full, read-only).
        ValueError: a trajectory has not as many advantages as ids.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, rows = _schema(), (_row(step, one, (advantages or {}).get(one.id)) for one in trajectories)

    def write(temporary: Path) -> None:
        with pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as file:
            part = list(islice(rows, _ROWS))
            while part:
                file.write_table(pa.Table.from_pylist(part, schema=schema))
                part = list(islice(rows, _ROWS))

    write_file(path, write)


def read_trajectories(path: Path) -> list[Trajectory]:
    """The trajectories of a file, as they were written.

    Raises:
        RunError: the file is missing, damaged, or of another version.
    """
    with _naming_damage(path):
        return [_trajectory(row) for row in _read(path)]


def read_advantages(path: Path) -> list[list[float] | None]:
    """The advantages of a file, one row per trajectory over the ids of all its segments; None: not trained on.

    Raises:
        RunError: the file is missing, damaged, or of another version.
    """
    with _naming_damage(path):
        return [row["advantages"] for row in _read(path, ["advantages"])]


def read_task_keys(path: Path) -> set[str]:
    """The keys of the tasks of a file, as `task_key` gives them.

    Raises:
        RunError: the file is missing, damaged, or of another version.
    """
    with _naming_damage(path):
        rows = ((row["task_id"], json.loads(row["task"])) for row in _read(path, ["task_id", "task"]))
        return {_key(name, about["prompt"], about["seed"]) for name, about in rows}


def task_key(task: Task) -> str:
    """Tells whether two tasks are the same: their id, prompt and seed."""
    return _key(task.id, task.prompt, task.seed)


def _key(name: str, prompt: Any, seed: int | None) -> str:
    return encodable(_json([name, prompt, seed]))


def _schema() -> Any:
    import pyarrow as pa

    text, integer, number = pa.string(), pa.int64(), pa.float64()
    small, real = pa.int32(), pa.float32()
    columns = {
        "step": integer, "task_id": text, "sample": small, "status": text, "reason": text, "answer": text,
        "return": number, "reward": number, "rewards": text, "bootstrap": pa.bool_(), "action_tokens": small,
        "ids": pa.list_(small), "mask": pa.list_(pa.int8()), "logprobs": pa.list_(real), "advantages": pa.list_(real),
        "segment_lengths": pa.list_(small), "prompt_lengths": pa.list_(small), "task": text, "messages": text,
        "turns": text, "seed": integer, "policy_version": integer, "attempts": small, "seconds": number,
        "tool_seconds": number, "baseline": pa.bool_(),
    }  # fmt: skip
    return pa.schema(list(columns.items()), metadata={_KEY: SCHEMA})


def _row(step: int, trajectory: Trajectory, advantages: Sequence[float] | None) -> dict[str, Any]:
    task, segments = trajectory.task, trajectory.segments
    about = {"prompt": task.prompt, "answers": task.answers, "seed": task.seed, "metadata": dict(task.metadata)}
    row = {name: getattr(trajectory, name) for name in (*_PLAIN, "baseline")} | {
        "step": step,
        "task_id": task.id,
        "status": trajectory.status.value,
        "answer": trajectory.answer,
        "return": trajectory.total_reward,
        "rewards": _json(trajectory.rewards),
        "action_tokens": trajectory.action_tokens,
        "ids": _joined(segment.ids for segment in segments),
        "mask": _joined(segment.mask for segment in segments),
        "logprobs": _joined(segment.logprobs for segment in segments),
        "advantages": _advantages(trajectory, advantages),
        "segment_lengths": [len(segment.ids) for segment in segments],
        "prompt_lengths": [segment.prompt_length for segment in segments],
        "task": _json(about),
        "messages": _json(trajectory.messages()),
        "turns": _json([_turn_row(turn) for turn in trajectory.turns]),
    }
    return {name: encodable(value) if isinstance(value, str) else value for name, value in row.items()}


def _turn_row(turn: Turn) -> dict[str, Any]:
    """The turn without its texts, which `messages` holds; `observed` counts the messages of its observation."""
    row = {name: getattr(turn, name) for name in _TURN}
    return row | {"calls": [vars(call) for call in turn.calls], "observed": len(turn.observation)}


def _advantages(trajectory: Trajectory, values: Sequence[float] | None) -> list[float] | None:
    if values is None:
        return None
    if len(values) != trajectory.tokens:
        raise ValueError(f"{len(values)} advantages for the {trajectory.tokens} ids of trajectory {trajectory.id}")
    return [float(value) for value in values]


def _read(path: Path, columns: list[str] | None = None) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        version = (file.schema_arrow.metadata or {}).get(_KEY, b"")
        if version not in READABLE:
            raise RunError(
                f"{path} holds trajectories of version {version.decode() if version.isdigit() else 'none'}, and this "
                f"agent-r1 reads the versions {b', '.join(READABLE).decode()}; use the agent-r1 that wrote it"
            )
        return list(file.read(columns).to_pylist())


@contextmanager
def _naming_damage(path: Path) -> Iterator[None]:
    """Turn what reading a missing or damaged file raises into a sentence about it.

    Raises:
        RunError: instead of what pyarrow raises, and of what rows raise that `_row` did not make.
    """
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError as error:
        raise RunError(f"there are no trajectories at {path}; list the folder to see which steps have some") from error
    except (OSError, pa.ArrowException, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise RunError(f"{path} cannot be read ({error.strerror}); make it readable and try again") from error
        raise RunError(f"{path} is not a whole file of trajectories; restore it from a copy, or delete it") from error


def _trajectory(row: dict[str, Any]) -> Trajectory:
    about = json.loads(row["task"])
    task = Task(row["task_id"], about["prompt"], tuple(about["answers"]), about["seed"], about["metadata"])
    messages = json.loads(row["messages"])
    turns = []
    for entry in json.loads(row["turns"]):
        observed = entry.pop("observed")
        turns.append(_turn(entry, messages[:observed], messages[observed]["content"]))
        messages = messages[observed + 1 :]
    return Trajectory(
        task=task,
        segments=_segments(row),
        turns=turns,
        status=EndStatus(row["status"]),
        closing=messages,
        answer=row["answer"],
        rewards=json.loads(row["rewards"]),
        baseline=bool(row.get("baseline")),  # files written before there were any lack it
        **{name: row[name] for name in _PLAIN},
    )


def _turn(entry: dict[str, Any], observation: list[Message], text: str) -> Turn:
    info = entry["info"]
    if "calls" not in entry:
        entry |= {name: info.pop(name) for name in _ONCE_INFO if name in info}
        info.pop("answer", None)
    entry["calls"] = [CallRecord(**call) for call in entry.get("calls", ())]
    entry["versions"] = tuple((version, count) for version, count in entry.get("versions", ()))
    return Turn(observation=observation, text=text, **entry)


def _segments(row: dict[str, Any]) -> list[Segment]:
    segments, start = [], 0
    for length, prompt_length in zip(row["segment_lengths"], row["prompt_lengths"], strict=True):
        span = slice(start, start + length)
        segments.append(Segment(row["ids"][span], row["mask"][span], row["logprobs"][span], prompt_length))
        start += length
    return segments


def _joined(parts: Iterable[list[Any]]) -> list[Any]:
    return [value for part in parts for value in part]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
