"""A trajectory as a row of a file, with every column of the file, and back."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

from agent_r1_core.contracts.markup import encodable
from agent_r1_core.contracts.token_numbers import TokenNumbers
from agent_r1_core.trajectory import CallRecord, EndStatus, Message, Segment, Task, Trajectory, Turn

NUMBERS = ("advantages", "learner_logprobs", "values")
"""Columns of what an update knew of tokens: the fields of `TokenNumbers`."""
_PLAIN = (
    "sample", "reason", "bootstrap", "reward", "seed", "policy_version", "attempts", "seconds", "tool_seconds",
    "baseline", "demonstrated", "examples", "player", "branched_from", "repeated_turns", "hinted",
)  # fmt: skip
_NEWER = ("player", "branched_from", "repeated_turns", "hinted")
"""Older files have none of them."""
_TURN = (
    "index", "segment", "start", "stop", "finish", "reward", "rewards", "state_key", "new_context", "versions",
    "errors", "success", "tool_seconds", "info", "purpose",
)  # fmt: skip


def columns() -> dict[str, Any]:
    """The type of every column, as pyarrow names types."""
    import pyarrow as pa

    text, integer, number = pa.string(), pa.int64(), pa.float64()
    small, real = pa.int32(), pa.float32()
    return {
        "step": integer, "task_id": text, "sample": small, "status": text, "reason": text, "answer": text,
        "return": number, "reward": number, "rewards": text, "bootstrap": pa.bool_(), "action_tokens": small,
        "ids": pa.list_(small), "mask": pa.list_(pa.int8()), "logprobs": pa.list_(real),
        **dict.fromkeys(NUMBERS, pa.list_(real)),
        "segment_lengths": pa.list_(small), "prompt_lengths": pa.list_(small), "task": text, "messages": text,
        "turns": text, "seed": integer, "policy_version": integer, "attempts": small, "seconds": number,
        "tool_seconds": number, "baseline": pa.bool_(), "demonstrated": text, "examples": small,
        "player": small, "branched_from": small, "repeated_turns": small, "hinted": pa.list_(small),
        "turn_count": small, "tool_errors": small,
    }  # fmt: skip


def row_of(step: int | None, trajectory: Trajectory, numbers: TokenNumbers) -> dict[str, Any]:
    """The row of a trajectory; a ValueError where it has not as many numbers as ids."""
    task, segments = trajectory.task, trajectory.segments
    about = {"prompt": task.prompt, "answers": task.answers, "seed": task.seed, "metadata": dict(task.metadata)}
    row = {name: getattr(trajectory, name) for name in _PLAIN} | {
        "step": step,
        "task_id": task.id,
        "status": trajectory.status.value,
        "answer": trajectory.answer,
        "return": trajectory.total_reward,
        "rewards": json_text(trajectory.rewards),
        "action_tokens": trajectory.action_tokens,
        "ids": list(chain.from_iterable(segment.ids for segment in segments)),
        "mask": list(chain.from_iterable(segment.mask for segment in segments)),
        "logprobs": list(chain.from_iterable(segment.logprobs for segment in segments)),
        **_numbers(trajectory, numbers),
        "segment_lengths": [len(segment.ids) for segment in segments],
        "prompt_lengths": [segment.prompt_length for segment in segments],
        "task": json_text(about),
        "messages": json_text(trajectory.messages()),
        "turns": json_text([_turn_row(turn) for turn in trajectory.turns]),
        "turn_count": len(trajectory.steps),
        "tool_errors": sum(call.error is not None for turn in trajectory.turns for call in turn.calls),
    }
    return {name: encodable(value) if isinstance(value, str) else value for name, value in row.items()}


def _turn_row(turn: Turn) -> dict[str, Any]:
    """The turn without its texts, which `messages` holds; `observed` counts the messages of its observation."""
    row = {name: getattr(turn, name) for name in _TURN}
    row |= {"notes": turn.notes} if turn.notes else {}
    return row | {"calls": [vars(call) for call in turn.calls], "observed": len(turn.observation)}


def _numbers(trajectory: Trajectory, numbers: TokenNumbers) -> dict[str, Any]:
    if trajectory.status is EndStatus.FAILED:
        return dict.fromkeys(NUMBERS)
    found: dict[str, Any] = numbers.of(trajectory.id)
    for name, values in found.items():
        if values is not None and len(values) != trajectory.tokens:
            raise ValueError(f"{len(values)} {name} for the {trajectory.tokens} ids of trajectory {trajectory.id}")
    return found


def trajectory_of(row: dict[str, Any]) -> Trajectory:
    """The trajectory of a row that has all columns.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: agent-r1 did not write the row.
    """
    about = json.loads(row["task"])
    prompt = about["prompt"] if isinstance(about["prompt"], str) else _of_text(about["prompt"])
    task = Task(row["task_id"], prompt, tuple(about["answers"]), about["seed"], about["metadata"])
    messages = _of_text(json.loads(row["messages"]))
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
        **{name: row[name] for name in _PLAIN if name in row or name not in _NEWER},
    )


def _of_text(messages: list[Message]) -> list[Message]:
    """The messages, whose roles and contents must be text."""
    if not all(isinstance(message[key], str) for message in messages for key in ("role", "content")):
        raise TypeError("a message has a role or a content that is no text")
    return messages


def _turn(entry: dict[str, Any], observation: list[Message], text: str) -> Turn:
    entry["calls"] = [CallRecord(**call) for call in entry["calls"]]
    entry["versions"] = tuple((version, count) for version, count in entry["versions"])
    return Turn(observation=observation, text=text, **entry)


def _segments(row: dict[str, Any]) -> list[Segment]:
    segments, start = [], 0
    for length, prompt_length in zip(row["segment_lengths"], row["prompt_lengths"], strict=True):
        span = slice(start, start + length)
        segments.append(Segment(row["ids"][span], row["mask"][span], row["logprobs"][span], prompt_length))
        start += length
    return segments


def json_text(value: Any) -> str:
    """JSON in which whatever it lacks is written as its `str`."""
    return json.dumps(value, ensure_ascii=False, default=str)
