"""What pydantic finds wrong with options: at which key, of which type, in which words; and what is wrong
with the metrics that a component declares.

Knows a value's keys by walking into the value: a union member whose name is also a key of a mapping there is taken for
that key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from agent_r1_core.contracts.metric import Metric
from agent_r1_core.nearest import did_you_mean

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

    from agent_r1_core.contracts.component import Component

    M = TypeVar("M", bound=BaseModel)

Key = tuple[str | int, ...]
"""The place of a value: `("tools", 0, "top_k")` is written `tools[0].top_k`."""


def key_text(key: Iterable[str | int]) -> str:
    """`tools[0].top_k`."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@dataclass(frozen=True)
class WrongValue:
    """One error; a key has several where a value fits none of several types."""

    key: Key
    """Without the names of union members, which are no part of the value."""
    type: str
    """Pydantic's type of error, e.g. `missing`."""
    text: str
    """Pydantic's message, without `Value error, `."""
    given: Any
    """The value at the key; for a wrong key of a mapping, that key."""


def wrong_values(error: ValidationError, value: Any) -> Iterator[WrongValue]:
    """Every error that pydantic found in a value, in its order."""
    for item in error.errors(include_url=False):
        *parts, last = item["loc"] or ("",)
        given, key = value, list[str | int]()
        missing = item["type"] == "missing"
        for part in parts if missing else item["loc"]:
            entries = isinstance(given, Sequence) and not isinstance(given, str | bytes) and isinstance(part, int)
            if entries or (isinstance(given, Mapping) and part in given):
                given = given[part]
                key.append(part)
        key += [last] if missing else []
        given = item["input"] if last == "[key]" else given
        text = item["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
        yield WrongValue(tuple(key), item["type"], text, given)


def validate(model: type[M], options: Mapping[str, Any]) -> tuple[M | None, list[tuple[str, str]]]:
    """The options of a component as its model, or None; and for each error its key and what to say behind it."""
    from pydantic import ValidationError

    options = dict(options)
    try:
        return model.model_validate(options), []
    except ValidationError as error:
        found = [(key_text(one.key) or "the block", _sentence(model, one)) for one in wrong_values(error, options)]
        return None, list(dict.fromkeys(found))


def wrong_metrics(cls: type[Component]) -> list[str]:
    """What is wrong with the metrics that a component's class declares, as one sentence; none where nothing is."""
    metrics: Any = cls.metrics
    if isinstance(metrics, tuple | list) and all(isinstance(metric, Metric) for metric in metrics):
        return []
    form = 'metrics = (Metric("name", "meaning"),), with Metric from agent_r1_core'
    return [f"metrics of {cls.__name__} is {short(metrics)}; write {form}"]


def short(value: Any) -> str:
    """A value for a message, of at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _sentence(model: type[BaseModel], wrong: WrongValue) -> str:
    if wrong.type == "missing":
        return "is missing; it has no default"
    if wrong.type == "extra_forbidden":
        fields = list(dict.fromkeys(_fields(model, wrong.key[:-1])))
        allowed = f"options: {', '.join(fields)}" if fields else "there are no options here"
        return f"is not an option{did_you_mean(str(wrong.key[-1]), fields)} ({allowed})"
    return f"is {short(wrong.given)}: {wrong.text[:1].lower()}{wrong.text[1:]}"


def _fields(annotation: Any, path: Key) -> Iterator[str]:
    """The options at a path into models, and lists and mappings of models; those of every member of a union."""
    fields = getattr(annotation, "model_fields", None)
    if fields is not None and path:
        yield from _fields(fields[path[0]].annotation, path[1:]) if path[0] in fields else ()
    elif fields is not None:
        yield from fields
    else:
        origin = get_origin(annotation)
        holds = isinstance(origin, type) and issubclass(origin, Collection)
        for inner in get_args(annotation) if path or not holds else ():
            yield from _fields(inner, path[1:] if holds else path)
