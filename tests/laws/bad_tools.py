"""Two good tools and many bad ones, in a module that another process can import."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import re
import resource
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

from pydantic import field_validator

from agent_r1_core import Tool, ToolArguments, ToolContext, ToolError, tool

RELEASE = threading.Event()
"""Lets go of every hung thread."""
PATIENCE = float(os.environ.get("LAWS_PATIENCE", "60"))
"""Seconds after which a hung tool gives up by itself, so that a test that is about to fail ends."""


class Rude(BaseException):
    """No ordinary exception."""


class Mute(Exception):
    """An exception that cannot be printed."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Deadly(Exception):
    """An exception whose text would end the process."""

    def __str__(self) -> str:
        raise SystemExit(3)


class Unprintable:
    """A result that has no text."""

    __str__ = Mute.__str__


class SlyText(str):
    """A text that seems empty, and prints and encodes as something else."""

    def __len__(self) -> int:
        return 0

    def encode(self, *_: Any) -> Any:
        raise ValueError("no words")

    __str__ = __format__ = __repr__ = encode  # type: ignore[assignment]


ERRORS: dict[str, type[BaseException]] = {
    one.__name__: one
    for one in (
        *(ValueError, ToolError, RecursionError, MemoryError, TimeoutError, StopIteration, SystemExit),
        *(KeyboardInterrupt, asyncio.CancelledError, Rude, Mute, Deadly),
    )
}


def failing(kind: str) -> Callable[[], Any]:
    """A function that raises."""

    def fail() -> Any:
        raise ERRORS[kind]()

    return fail


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


@tool
def lookup(name: str) -> str:
    """Look a name up."""
    return f"{name} was born in Tavelo."


class PaidLookup(Tool):
    """Looks names up, and pays for each call."""

    name = "lookup"
    reward_range = (0.0, 1.0)

    class Arguments(ToolArguments):
        name: str

    def run(self, arguments: Any, context: ToolContext) -> str:
        context.reward(1.0)
        return f"{arguments.name} was born in Tavelo."


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
        "nothing": lambda: None,
        "unprintable": Unprintable,
        "sly": lambda: SlyText("x" * 10_000_000),
        "circle": _circle,
    }[kind]()


@tool
def hang() -> str:
    """Wait until the test is over."""
    RELEASE.wait(PATIENCE)
    return "late"


@tool
def loop() -> str:
    """Compute until the test is over."""
    late = time.monotonic() + PATIENCE
    while not RELEASE.is_set() and time.monotonic() < late:
        pass
    return "late"


async def stubborn() -> None:
    """Never end, and refuse to be cancelled once."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()


@tool
async def hang_async() -> None:
    """Never answer."""
    await stubborn()


class SlowText:
    """A result whose text takes until the test is over."""

    def __str__(self) -> str:
        RELEASE.wait(PATIENCE)
        return "late"


class Picky(Tool):
    """Runs the author's code while arguments are validated and while the result becomes text."""

    name = "picky"

    class Arguments(ToolArguments):
        """Arguments with a validator."""

        kind: str

        @field_validator("kind")
        @classmethod
        def check(cls, kind: str) -> str:
            if kind == "hangs when validated":
                RELEASE.wait(PATIENCE)
            if kind == "leaves when validated":
                raise SystemExit(3)
            return "late"

    def run(self, arguments: Any, context: ToolContext) -> Any:
        return SlowText()


class PickyAsync(Picky):
    """The same with an async run."""

    async def run(self, arguments: Any, context: ToolContext) -> Any:
        return SlowText()


@tool
def collect(names: list[str]) -> str:
    """Change its own arguments."""
    names.append("forged")
    return str(len(names))


@tool
def meddle() -> str:
    """Change the process in which it runs, in every way that is put back."""
    import torch

    logging.disable(100)
    for name in logging.root.manager.loggerDict:  # as logging.config does, which also closes pytest's handlers
        logging.getLogger(name).disabled = True
    os.chdir("/")
    sys.setrecursionlimit(4321)
    torch.set_default_dtype(torch.float64)
    sys.stdout = StringIO()
    os.umask(0o777)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    signal.alarm(3600)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    return "done"


@tool
def close_output() -> str:
    """Close the descriptor of standard error."""
    os.close(2)
    return "closed"


@tool
def close_streams() -> str:
    """Close Python's own streams."""
    sys.stdout.close()
    sys.stderr.close()
    return "closed"


@tool
def close_output_late() -> str:
    """Close that of standard output after the call was given up."""
    time.sleep(0.3)
    os.close(1)
    return "closed"


@tool
async def meddle_async() -> str:
    """Change what only the main thread can change."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return "done"


@tool
def fork() -> str:
    """Fork, and let the copy answer too."""
    return str(os.fork())


def _answer_twice() -> None:
    worker, send = _worker()
    worker.send = lambda *reply: (send(*reply), send(*reply))


def _answer_with_the_answer_before() -> None:
    worker, send = _worker()
    if hasattr(worker, "kept"):
        return
    worker.kept = None

    def late(connection: Any, *reply: Any) -> None:
        send(connection, *(worker.kept or reply))
        worker.kept = reply

    worker.send = late


def _worker() -> tuple[Any, Callable[..., None]]:
    """The module that serves an isolated tool, and its function that answers."""
    worker: Any = sys.modules["__main__"]
    return worker, worker.send


def _write_to_sockets() -> None:
    for descriptor in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.write(descriptor, b"no reply at all, and longer than a header")
        except OSError:
            continue


TRICKS: dict[str, Callable[[], Any]] = {
    "fork": os.fork,
    "fork in C": lambda: ctypes.CDLL(None).fork(),
    "leave": lambda: os._exit(0),
    "answer twice": _answer_twice,
    "stale answer": _answer_with_the_answer_before,
    "write to sockets": _write_to_sockets,
    "close everything": lambda: os.closerange(3, 256),
}


_REPLY = (
    '{"name": "", "text": "", "error": false, "metrics": {}, "reward": 0, "rng": null, "removed": [], "set": {"x": %s}}'
)
FLOODS: dict[str, Callable[[], str]] = {
    "12 MB": lambda: f'"{"x" * 12_000_000}"',
    "430,000 lists": lambda: f"[{'[],' * 430_000}0]",
    "430,000 levels": lambda: "[" * 430_000 + "]" * 430_000,
}


@tool
def flood(shape: str) -> str:
    """Answer past the checks of its own process, with more than the training process should read."""
    worker, send = _worker()
    worker.send = lambda connection, call, _: send(connection, call, (_REPLY % FLOODS[shape]()).encode())
    return "sent"


@tool
def echo(name: str, trick: str) -> str:
    """Say the name, after a trick that may hand it to another call."""
    TRICKS[trick]()
    return name


@tool
def daemon(then: str, pid_file: str) -> str:
    """Leave a process in a session of its own, whose parent has ended."""
    here, there = os.pipe()
    if (child := os.fork()) == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(there, str(os.getpid()).encode())
            time.sleep(3 * PATIENCE)
        os._exit(0)
    os.waitpid(child, 0)
    Path(pid_file).write_bytes(os.read(here, 20))
    if then == "end":
        os._exit(1)
    if then == "hang":
        RELEASE.wait(PATIENCE)
    return "left"


@tool
def spin(how: str, pid_file: str) -> str:
    """Keep the interpreter's lock for ages: no other thread of this process runs meanwhile."""
    Path(pid_file).write_text(str(os.getpid()))
    if how == "regular expression":
        return str(re.match(r"(a+)+$", "a" * 64 + "b"))
    return str(pow(7, 10**9) > 0)


class Holder(Tool):
    """Notes what one episode said; `how` says what it then does."""

    name = "hold"

    class Arguments(ToolArguments):
        word: str
        how: str = ""

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.held: dict[str, list[str]] = {}
        self.released: list[tuple[str, list[str]]] = []
        """Every episode that was released, with what was held for it."""

    async def run(self, arguments: Arguments, context: ToolContext) -> str:
        await asyncio.sleep(0.01 if arguments.word == "first" else 0)
        said = self.held.setdefault(context.episode, [])
        said.append(arguments.word)
        if arguments.how == "fail":
            raise ValueError("no words")
        if arguments.how == "hang":
            await asyncio.sleep(PATIENCE)
        return " ".join(said)

    def release(self, context: ToolContext) -> None:
        said = self.held.pop(context.episode)
        self.released.append((context.episode, said))
        if "rude" in said:
            raise Rude
