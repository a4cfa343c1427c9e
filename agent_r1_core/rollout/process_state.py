"""SharedProcess: notices what tools change in the process that all share, puts it back, and says so once.

It sees what is cheap to see: torch's default dtype, the recursion limit and the handlers of SIGINT and SIGTERM after
every call; the working directory and standard output and error once no call runs, since a call may change them for its
own time. It sees neither closed descriptors nor what a call does after it was given up.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
        self._told: set[str] = set()

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
        if sys.getrecursionlimit() != before.recursion:
            sys.setrecursionlimit(before.recursion)
            self._tell(tool, "the recursion limit")
        if before.dtype is not None and _dtype() is not before.dtype:
            sys.modules["torch"].set_default_dtype(before.dtype)
            self._tell(tool, "torch's default dtype")

    def end(self) -> None:
        """A call has ended, or was given up."""
        self._running -= 1
        if self._running:
            return
        before, tools = self._before, " or ".join(self._tools)
        if before.folder is not None and _folder() != before.folder:
            self._restore(tools, "the working directory", lambda: os.chdir(str(before.folder)))
        if (sys.stdout, sys.stderr) != before.streams:
            sys.stdout, sys.stderr = before.streams
            self._tell(tools, "standard output or standard error")

    def handlers(self) -> tuple[Any, ...]:
        """The handlers of SIGINT and SIGTERM, which only code on the main thread can change: an async tool's."""
        return tuple(signal.getsignal(number) for number in _SIGNALS)

    def restore_handlers(self, tool: str, before: tuple[Any, ...]) -> None:
        """Put back what `handlers` gave before the tool ran on the event loop."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, handler in zip(_SIGNALS, before, strict=True):
            if handler is not None and signal.getsignal(number) != handler:
                self._restore(tool, f"the handler of {number.name}", partial(signal.signal, number, handler))

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


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def _dtype() -> Any:
    get = getattr(sys.modules.get("torch"), "get_default_dtype", None)
    return None if get is None else get()
