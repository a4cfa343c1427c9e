"""The task source `table`: tasks from the columns of any file or hub data set.

`prompt` and the other options name columns; a dot goes into a column: `reward_model.ground_truth`. A prompt is a text,
or a list of messages with `role` and `content`. Answers are a text or a number, or a list of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from agent_r1_core import Message, Record, RecordsConfig, Task, TaskError
from agent_r1_core.contracts.markup import encodable
from agent_r1_questions.questions import Questions

_MOST = 1_000_000
"""Characters of a prompt or of a task's metadata."""
_KINDS = {
    **{"NoneType": "null", "bool": "true or false", "int": "number", "float": "number"},
    **{"dict": "nested object", "list": "nested list"},
}


class Table(Questions):
    """Tasks from a JSON, JSON Lines, CSV or Parquet file or a hub data set, whose columns you name."""

    format = "table"
    reads_others = True

    class Config(RecordsConfig):
        hub: str = ""
        """A data set on the Hugging Face hub, read if `path` is null."""
        prompt: str = Field("prompt", min_length=1)
        """The column with what the policy is asked: a text, or a list of system and user messages."""
        answers: str | None = None
        """The column with the accepted answers: a text, a number, or a list of them; null: tasks have none, for
        rewards that need none."""
        id: str | None = None
        """The column with a text or a whole number that no other row has; null: the file's name and the row's number
        from 0."""
        metadata: tuple[str, ...] = ()
        """Columns to keep, for rewards, environments, reports and `training.curriculum.by`."""

    def task(self, record: Record) -> Task:
        """The task of a row; metadata: the columns that `metadata` names."""
        config = self.config
        prompt = _prompt(record, config.prompt)
        label = f"{config.stem}.{record.index}" if config.id is None else _label(record, config.id)
        answers = () if config.answers is None else _answers(record, config.answers)
        metadata = {name: _plain(record, name) for name in config.metadata}
        return Task(id=label, prompt=prompt, answers=answers, metadata=metadata)


def _cell(record: Record, column: str) -> Any:
    """The value of a column; a TaskError where there is none."""
    value = record.content
    if isinstance(value, Mapping) and column in value:
        return value[column]
    for part in column.split("."):
        if not isinstance(value, Mapping) or part not in value:
            columns = list(record.content)[:8] if isinstance(record.content, Mapping) else ["none"]
            has = ", ".join(map(str, columns))
            one = len(columns) == 1 and any(mark in has for mark in ";\t|")
            then = "separate its columns by commas" if one else "name one that it has"
            raise TaskError(f"{record.where} has no column {column!r} (it has {has:.200}); {then}")
        value = value[part]
    return value


def _wrong(record: Record, column: str, found: str, instead: str) -> TaskError:
    return TaskError(f"{record.where}, column {column!r}, has {found}; give {instead}, or leave the row out")


def _text(record: Record, column: str, value: Any) -> str:
    """A text that is not blank, as any encoding holds it."""
    if not isinstance(value, str) or not value.strip():
        raise _wrong(record, column, "no text" if isinstance(value, str) else f"a {_kind(value)}", "a text")
    if "\0" in value:
        raise _wrong(record, column, "a NUL character", "a text without it")
    if len(value) > _MOST:
        raise _wrong(record, column, f"{len(value):,} characters", f"at most {_MOST:,}")
    return encodable(value.strip())


def _prompt(record: Record, column: str) -> str | Sequence[Message]:
    value = _cell(record, column)
    if not isinstance(value, list):
        return _text(record, column, value)
    messages: list[Message] = []
    for one in value:
        role = one.get("role") if isinstance(one, Mapping) else None
        if role not in ("system", "user"):
            raise _wrong(record, column, f"a message of the role {role!r:.40}", "system and user messages alone")
        messages.append({"role": role, "content": _text(record, column, one.get("content"))})
    if not messages or messages[-1]["role"] != "user":
        raise _wrong(record, column, "no user message at its end", "one")
    return messages


def _answers(record: Record, column: str) -> tuple[str, ...]:
    value = _cell(record, column)
    values = value if isinstance(value, list) else [value]
    if not values:
        raise _wrong(record, column, "an empty list", "an answer")
    return tuple(dict.fromkeys(_answer(record, column, one) for one in values))


def _answer(record: Record, column: str, value: Any) -> str:
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return str(int(value) if value == int(value) else value)
    if isinstance(value, str):
        return _text(record, column, value)
    kind = str(value) if isinstance(value, float) else f"a {_kind(value)}"
    raise _wrong(record, column, kind, "a text or a number, or a list of them")


def _label(record: Record, column: str) -> str:
    value = _cell(record, column)
    return str(value) if type(value) is int else _text(record, column, value)


def _plain(record: Record, column: str) -> Any:
    """A value that JSON holds."""
    value = _cell(record, column)
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        raise _wrong(record, column, f"{value!r:.40}, which JSON cannot hold", "a value of JSON") from None
    if len(text) > _MOST:
        raise _wrong(record, column, f"{len(text):,} characters of JSON", f"at most {_MOST:,}")
    return json.loads(encodable(text))


def _kind(value: Any) -> str:
    name = type(value).__name__
    return _KINDS.get(name, name)
