"""SharedProcess: notices what tools change in the process that all share, puts it back, and says so once.

It sees what is cheap to see: after every call torch's default dtype, a lower recursion limit, the descriptors of
standard output and error, and the handlers of SIGINT and SIGTERM; once no call runs, since a call may change them for
its own time, the working directory, a higher recursion limit, `sys.stdout` and `sys.stderr`. It sees neither other
descriptors that a tool closes, nor what a call does after it was given up.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

_LOG = logging.getLogger(__name__)
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class _Snapshot:
    """The state of the process before the calls that run now."""

    folder: str | None
    """None: it does not exist."""
    streams: tuple[Any, Any]
    recursion: int
    dtype: Any
    """None: torch is not loaded."""

    @classmethod
    def take(cls) -> _Snapshot:
        return cls(_folder(), (sys.stdout, sys.stderr), sys.getrecursionlimit(), _dtype())


class SharedProcess:
    """Watches the calls of one runner; `begin` and `end` belong to the event loop."""

    def __init__(self) -> None:
        self._running = 0
        self._tools: dict[str, None] = {}
        """Tools that were called since nothing ran, in order."""
        self._before = _Snapshot.take()
        self._on_loop = 0
        self._handlers: tuple[Any, ...] = ()
        self._told: set[str] = set()
        _outputs()

    def begin(self, tool: str) -> None:
        """A call begins."""
        if not self._running:
            self._before = _Snapshot.take()
            self._tools.clear()
        self._running += 1
        self._tools[tool] = None

    def returned(self, tool: str) -> None:
        """A tool's code has returned; called in its thread, before anything else runs there."""
        before = self._before
        if sys.getrecursionlimit() < before.recursion:
            self._restore_recursion(tool)
        if before.dtype is not None and _dtype() is not before.dtype:
            sys.modules["torch"].set_default_dtype(before.dtype)
            self._tell(tool, "torch's default dtype")
        for descriptor, copy in _outputs().items():
            try:
                os.fstat(descriptor)
            except OSError:
                with suppress(OSError):
                    os.dup2(copy, descriptor, inheritable=True)
                    self._tell(tool, "the descriptors of standard output and standard error")

    def end(self) -> None:
        """A call has ended, or was given up."""
        self._running -= 1
        if self._running:
            return
        before, tools = self._before, " or ".join(self._tools)
        if before.folder is not None and _folder() != before.folder:
            self._restore(tools, "the working directory", lambda: os.chdir(str(before.folder)))
        if sys.getrecursionlimit() != before.recursion:
            self._restore_recursion(tools)
        if (sys.stdout, sys.stderr) != before.streams:
            sys.stdout, sys.stderr = before.streams
            self._tell(tools, "sys.stdout or sys.stderr")

    def begin_on_loop(self) -> None:
        """An async tool begins to run on the event loop: only code on the main thread can change signal handlers."""
        if not self._on_loop:
            self._handlers = tuple(signal.getsignal(number) for number in _SIGNALS)
        self._on_loop += 1

    def end_on_loop(self, tool: str) -> None:
        """An async tool has ended, or was given up."""
        self._on_loop -= 1
        if threading.current_thread() is not threading.main_thread():
            return
        for number, handler in zip(_SIGNALS, self._handlers, strict=True):
            if handler is not None and signal.getsignal(number) != handler:
                self._restore(tool, f"the handler of {number.name}", partial(signal.signal, number, handler))

    def _restore_recursion(self, tools: str) -> None:
        with suppress(RecursionError):  # too deep to lower it here: the next call's end does
            sys.setrecursionlimit(self._before.recursion)
            self._tell(tools, "the recursion limit")

    def _restore(self, tools: str, what: str, restore: Callable[[], Any]) -> None:
        try:
            restore()
        except OSError as error:
            _LOG.warning("tool %s changed %s, which cannot be put back (%s)", tools, what, error)
        else:
            self._tell(tools, what)

    def _tell(self, tools: str, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            _LOG.warning(
                "tool %s changed %s, which everything in this process shares; it was put back: "
                "with isolation: process a tool has a process of its own",
                tools,
                what,
            )


@cache
def _outputs() -> dict[int, int]:
    """The descriptors of standard output and error, with copies that outlive their closing."""
    copies = {}
    for descriptor in (1, 2):
        with suppress(OSError):
            copies[descriptor] = os.dup(descriptor)
    return copies


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def _dtype() -> Any:
    get = getattr(sys.modules.get("torch"), "get_default_dtype", None)
    return None if get is None else get()
