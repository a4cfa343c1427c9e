"""SharedProcess: notices what tools change in the process that all share, puts it back, and says so once.

It sees what is cheap to see: after every call torch's default dtype, a lower recursion limit, closed descriptors of
standard output and error, timers that would end the process, and the handlers of SIGINT and SIGTERM; once no call runs,
since a call may change them for its own time, the working directory, the umask, lower limits of the system, a higher
recursion limit, where those descriptors lead, `sys.stdout` and `sys.stderr`. It does not see other descriptors, what a
call does after it was given up, or a module or builtin that a tool replaces.
"""

from __future__ import annotations

import logging
import os
import resource
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
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_LIMITS = (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_DATA, resource.RLIMIT_AS, resource.RLIMIT_CPU)
_OUTPUTS = "the descriptors of standard output and standard error"


@dataclass(frozen=True)
class _Snapshot:
    """The state of the process before the calls that run now."""

    folder: str | None
    """None: it does not exist."""
    streams: tuple[Any, Any]
    recursion: int
    dtype: Any
    """None: torch is not loaded."""
    timers: tuple[int, ...]
    """Those that run."""

    @classmethod
    def take(cls) -> _Snapshot:
        return cls(
            folder=_folder(),
            streams=(sys.stdout, sys.stderr),
            recursion=sys.getrecursionlimit(),
            dtype=_dtype(),
            timers=_running_timers(),
        )


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
        self._outputs = _outputs()
        self._limits = {kind: resource.getrlimit(kind) for kind in _LIMITS}
        self._umask = os.umask(0o077)  # it cannot be read without being set
        os.umask(self._umask)

    def begin(self, tool: str) -> None:
        """A call begins."""
        if not self._running:
            self._before = _Snapshot.take()
            self._outputs.follow()
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
        for timer in _running_timers():
            if timer not in before.timers:
                signal.setitimer(timer, 0)
                self._tell(tool, "an alarm or timer of the system")
        if self._outputs.put_back(redirected=False):
            self._tell(tool, _OUTPUTS)

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
        if os.umask(self._umask) != self._umask:
            self._tell(tools, "the umask")
        if self._outputs.put_back(redirected=True):
            self._tell(tools, _OUTPUTS)
        for kind, (soft, hard) in self._limits.items():
            if _is_lower(resource.getrlimit(kind)[0], soft):
                self._restore(tools, "a limit of the system", partial(resource.setrlimit, kind, (soft, hard)))

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
        except (OSError, ValueError) as error:
            self._tell(tools, what, f"cannot be put back ({error})")
        else:
            self._tell(tools, what)

    def _tell(self, tools: str, what: str, outcome: str = "was put back") -> None:
        if what not in self._told:
            self._told.add(what)
            _LOG.warning(
                "tool %s changed %s, which everything in this process shares; it %s: "
                "with isolation: process a tool has a process of its own",
                tools,
                what,
                outcome,
            )


class _Outputs:
    """The descriptors of standard output and error, with copies that lead there whatever becomes of them."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[int, tuple[int, int]]] = {}
        """The copy of each, and what it leads to: a tool may have closed it, and its number may be another file's."""
        self.follow()

    def follow(self) -> None:
        """Copy those that lead elsewhere than before, while no call runs that could have changed them."""
        for descriptor in (1, 2):
            file, (copy, before) = _file(descriptor), self._copies.get(descriptor, (-1, None))
            if file is None or file == before:
                continue
            with suppress(OSError):
                if before is not None and _file(copy) == before:
                    os.close(copy)
                self._copies[descriptor] = os.dup(descriptor), file

    def put_back(self, *, redirected: bool) -> bool:
        """Open those that are closed, and those that lead elsewhere if `redirected`; returns whether it did."""
        changed = False
        for descriptor, (copy, before) in self._copies.items():
            file = _file(descriptor)
            if (file is None or (redirected and file != before)) and _file(copy) == before:
                with suppress(OSError):
                    os.dup2(copy, descriptor, inheritable=True)
                    changed = True
        return changed


def _file(descriptor: int) -> tuple[int, int] | None:
    """What a descriptor leads to; None: it is closed."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


_outputs = cache(_Outputs)
"""The one of this process, since copies stay open."""


def _running_timers() -> tuple[int, ...]:
    return tuple(timer for timer in _TIMERS if signal.getitimer(timer)[0])


def _is_lower(limit: int, before: int) -> bool:
    """Of two limits of the system."""
    return limit != resource.RLIM_INFINITY and (before == resource.RLIM_INFINITY or limit < before)


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def _dtype() -> Any:
    get = getattr(sys.modules.get("torch"), "get_default_dtype", None)
    return None if get is None else get()
