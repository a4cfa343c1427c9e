"""Turns pydantic's errors into one sentence per wrong key: where it is, what is allowed, the nearest valid key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from agent_r1_core.plugins.nearest import did_you_mean


@dataclass(frozen=True)
class Problem:
    """One wrong key or value."""

    key: str
    """With its path, e.g. `tools[0].top_k`."""
    message: str
    """What is wrong and what is allowed, to follow the key."""

    def __str__(self) -> str:
        return f"{self.key} {self.message}"


def validate(
    model: type[BaseModel], options: Mapping[str, Any], where: str = ""
) -> tuple[BaseModel | None, list[Problem]]:
    """Validate options; returns the model or None, and all problems."""
    try:
        return model.model_validate(dict(options)), []
    except ValidationError as error:
        return None, [_problem(model, details, where) for details in error.errors(include_url=False)]


def _problem(model: type[BaseModel], details: Any, where: str) -> Problem:
    location = _keys(model, details["loc"])
    key = _join(where, location)
    kind, message = details["type"], details["msg"]
    if kind == "extra_forbidden":
        fields = _fields(model, location[:-1])
        allowed = f" (options: {', '.join(fields)})" if fields else " (there are no options here)"
        return Problem(key, f"is not an option{did_you_mean(str(location[-1]), fields)}{allowed}")
    if kind == "missing":
        return Problem(key, "is missing; it has no default")
    if kind == "value_error":
        message = message.removeprefix("Value error, ")
    return Problem(key or where or "the block", f"is {_short(details['input'])}: {_lower(message)}")


def _keys(model: type[BaseModel], location: Sequence[int | str]) -> list[int | str]:
    """The keys in pydantic's location, without the names of validators and of union members, e.g. `list[str]`."""
    keys: list[int | str] = []
    current: Any = model
    for part in location:
        inside = _model_in(current)
        if inside is not None and isinstance(part, str):
            keys.append(part)
            field = inside.model_fields.get(part)
            current = field.annotation if field else None
        elif isinstance(part, int) or _is_mapping(current):
            keys.append(part)
    return keys


def _is_mapping(annotation: Any) -> bool:
    origin = get_origin(annotation)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return True
    return annotation is dict or any(_is_mapping(inner) for inner in get_args(annotation))


def _join(where: str, location: Sequence[int | str]) -> str:
    text = where
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text


def _fields(model: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    """Names of the fields at a path into nested models; empty if the path leaves the models."""
    current: Any = model
    for part in path:
        if isinstance(part, int):
            continue
        field = current.model_fields.get(part) if current else None
        current = _model_in(field.annotation) if field else None
    return list(current.model_fields) if current else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for inner in get_args(annotation) if (model := _model_in(inner))), None)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]
