"""What the gateway does with each field of a request: the one table behind the code, the tests and the docs.

A field is honoured, accepted without effect, or refused. One that no table lists is refused: it may mean anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from agent_r1_gateway.wire import ChatRequest, Refused, Reply


class Effect(StrEnum):
    """What becomes of a field."""

    HONOURED = "honoured"
    WITHOUT_EFFECT = "accepted without effect"
    REFUSED = "refused"


@dataclass(frozen=True)
class Field:
    """One row of the table."""

    name: str
    effect: Effect
    note: str = ""
    """How it is honoured; or why it is refused, and what to do instead."""
    harmless: tuple[Any, ...] = ()
    """Values of a refused field that ask for nothing, such as `n: 1`."""


def fields(honoured: Mapping[str, str], refused: Mapping[str, tuple[Any, ...]], ignored: str) -> Mapping[str, Field]:
    """A dialect's table.

    Args:
        honoured: the note of each such field.
        refused: the note of each such field, and its harmless values.
        ignored: the names of those without effect.
    """
    rows = [Field(name, Effect.HONOURED, note) for name, note in honoured.items()]
    rows += [Field(name, Effect.REFUSED, note, tuple(harmless)) for name, (note, *harmless) in refused.items()]
    rows += [Field(name, Effect.WITHOUT_EFFECT) for name in ignored.split()]
    return {row.name: row for row in rows}


def check_fields(body: Mapping[str, Any], table: Mapping[str, Field]) -> list[str]:
    """The fields of a request that have no effect.

    Raises:
        Refused: a field asks for what the gateway cannot do, or is unknown.
    """
    ignored = []
    for name, value in body.items():
        row = table.get(name)
        if row is None:
            raise Refused(f"the gateway does not know the field {name!r}; leave it out", field=name)
        if row.effect is Effect.REFUSED and value is not None and value not in row.harmless:
            raise Refused(f"the gateway cannot honour {name}: {row.note}", field=name)
        if row.effect is Effect.WITHOUT_EFFECT and value is not None:
            ignored.append(name)
    return ignored


class Dialect(Protocol):
    """An API. Modules of this package have these names."""

    @property
    def NAME(self) -> str:
        """As in records and the docs: `chat`, `messages`, `responses`."""

    @property
    def PATHS(self) -> tuple[str, ...]:
        """Where clients post requests, after the base address; with and without `/v1`."""

    @property
    def FIELDS(self) -> Mapping[str, Field]:
        """By name."""

    def read(self, body: Mapping[str, Any]) -> ChatRequest:
        """What a request means; raises Refused."""

    def write(self, reply: Reply, request: ChatRequest) -> dict[str, Any]:
        """The reply as the API's JSON."""

    def events(self, reply: Reply, request: ChatRequest) -> list[tuple[str | None, dict[str, Any] | str]]:
        """The reply as the API's stream: (name of the event or None, data) in order; text is sent as it is."""

    def error(self, refused: Refused) -> dict[str, Any]:
        """The body of an error."""
