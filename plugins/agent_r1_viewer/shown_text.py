"""Text of runs in answers: long ones are cut, and the rest is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_r1_core.trajectory import Message

LONGEST = 20_000
"""Characters of a text in an answer."""


def messages(several: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages in order; one that is cut says its full length."""
    return [_message(one) for one in several]


def cut(name: str, text: str) -> dict[str, Any]:
    """A text under its name; with its full length as `cut` if it is too long."""
    return {name: text} if len(text) <= LONGEST else {name: text[:LONGEST], "cut": len(text)}


def shortened(value: Any) -> Any:
    """Nested data whose texts are not too long."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[:LONGEST]} … ({len(value):,} characters)"
    if isinstance(value, Mapping):
        return {str(key): shortened(inner) for key, inner in value.items()}
    return [shortened(inner) for inner in value] if isinstance(value, list | tuple) else value


def _message(one: Message) -> dict[str, Any]:
    names = {"name": str(one["name"])} if one.get("name") is not None else {}
    return {"role": one["role"], **names, **cut("content", one["content"])}
