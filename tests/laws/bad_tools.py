"""One good tool and many bad ones, in a module that another process can import."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from pathlib import Path
from typing import Any

from agent_r1_core import ToolError, tool

RELEASE = threading.Event()
"""Lets go of every hung thread."""
PATIENCE = 20.0
"""Seconds after which a hung tool gives up by itself, so that a test that is about to fail ends."""


class Rude(BaseException):
    """No ordinary exception."""


class Mute(Exception):
    """An exception that cannot be printed."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Unprintable:
    """A result that has no text."""

    __str__ = Mute.__str__


ERRORS: dict[str, type[BaseException]] = {
    "ValueError": ValueError,
    "ToolError": ToolError,
    "RecursionError": RecursionError,
    "MemoryError": MemoryError,
    "TimeoutError": TimeoutError,
    "StopIteration": StopIteration,
    "SystemExit": SystemExit,
    "KeyboardInterrupt": KeyboardInterrupt,
    "CancelledError": asyncio.CancelledError,
    "Rude": Rude,
    "Mute": Mute,
}


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


@tool
def lookup(name: str) -> str:
    """Look a name up."""
    return f"{name} was born in Tavelo."


@tool
def fail(kind: str) -> str:
    """Raise."""
    raise ERRORS[kind]()


@tool
async def fail_async(kind: str) -> str:
    """Raise on the event loop."""
    raise ERRORS[kind]()


@tool
def answer(kind: str) -> Any:
    """Answer with something that is no sentence."""
    return {
        "10 MB": lambda: "x" * 10_000_000,
        "10 MB of bytes": lambda: b"\xff" * 10_000_000,
        "10 MB of JSON": lambda: {"rows": ["x" * 1000] * 10_000},
        "bytes": lambda: b"ok \xff\xfe\x00",
        "surrogate": lambda: "ok \udcff",
        "unprintable": Unprintable,
        "circle": _circle,
        "nothing": lambda: None,
    }[kind]()


@tool
def hang() -> str:
    """Wait until the test is over."""
    RELEASE.wait(PATIENCE)
    return "late"


@tool
async def hang_async() -> str:
    """Never answer, and refuse to be cancelled once."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()
    return "late"


@tool
def spin(how: str, pid_file: str) -> str:
    """Keep the interpreter's lock for ages: no other thread of this process runs meanwhile."""
    Path(pid_file).write_text(str(os.getpid()))
    if how == "regular expression":
        return str(re.match(r"(a+)+$", "a" * 64 + "b"))
    return str(pow(7, 10**9) > 0)
