"""The type of an option in words: `whole number, at least 1, or null` and not `Optional[Annotated[int, Ge(1)]]`."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_PLAIN = {
    bool: "true, false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    types.NoneType: "null",
}


def type_in_words(field: FieldInfo) -> str:
    """The type of an option, with its bounds."""
    return _words(field.annotation, field.metadata)


def _words(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    from pydantic import BaseModel

    from agent_r1_core.contracts.blocks import ComponentBlock
    from agent_r1_core.contracts.component import DataPath, LocalPath

    if annotation in (DataPath, LocalPath):
        return "path"
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _words(inner[0], (*inner[1:], *metadata))
    if origin in (Union, types.UnionType):
        return _joined([_words(each, metadata) for each in inner])
    if origin is Literal:
        return f"one of {', '.join(str(each) for each in inner)}"
    if _is(origin or annotation, Mapping):
        return "mapping"
    if _is(origin or annotation, Sequence) and annotation is not str:
        return f"list, each {_words(inner[0])}" if inner else "list"
    if _is(annotation, ComponentBlock):
        return "name, or mapping with name and options"
    if _is(annotation, BaseModel):
        return "mapping"
    if annotation in (int, float):
        return ", ".join([_PLAIN[annotation], *_bounds(metadata)])
    return _PLAIN.get(annotation, "anything")


def _is(annotation: Any, base: type) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, base)


def _joined(alternatives: list[str]) -> str:
    """`text or null`; if an alternative contains commas, `one of a, b, or null`."""
    separator = ", or " if any("," in each for each in alternatives) else " or "
    return separator.join(alternatives)


def _bounds(metadata: Iterable[Any]) -> list[str]:
    """`above 0`, `at least 1`, `from 1 to 100`."""
    limits = {
        name: getattr(each, name) for each in metadata for name in ("gt", "ge", "lt", "le") if hasattr(each, name)
    }
    if {"ge", "le"} <= limits.keys():
        return [f"from {limits['ge']} to {limits['le']}"]
    words = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
    return [f"{words[name]} {limits[name]}" for name in words if limits.get(name) is not None]
