"""SharedProcess: notices what tools and environments change in the process that all share, puts it back, says so once.
Of environments it watches the methods that are not async: tools run within the others.

What harms others at once is put back after every call, the rest once no call runs: a call may change it for its own
time. Unseen are other descriptors, modules and builtins that a tool replaces, and what a call does after it was given
up.
"""

from __future__ import annotations

import logging
import operator
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

_ADVICE = ": with isolation: process a tool has a process of its own"
_LOG = logging.getLogger(__name__)
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_LIMITS = (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_DATA, resource.RLIMIT_AS, resource.RLIMIT_CPU)


@dataclass(frozen=True)
class _State:
    """Something in the process that a tool may change. The last two compare it with what it was."""

    name: str
    read: Callable[[], Any]
    """None: there is none."""
    write: Callable[[Any], object]
    changed: Callable[[Any, Any], bool] = operator.ne
    harmful: Callable[[Any, Any], bool] = lambda now, before: False
    """Whether it cannot wait until no call runs."""


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def _dtype() -> Any:
    """None while torch is not loaded."""
    get = getattr(sys.modules.get("torch"), "get_default_dtype", None)
    return None if get is None else get()


def _streams() -> list[tuple[Any, bool]]:
    """Standard output and error, each with whether it is closed."""
    return [(stream, bool(getattr(stream, "closed", False))) for stream in (sys.stdout, sys.stderr)]


def _set_streams(streams: list[tuple[Any, bool]]) -> None:
    """In place of one that a call has closed there is another one on a copy of its descriptor: a thread may be closing
    the first just now."""
    found = []
    for (stream, closed), descriptor in zip(streams, (1, 2), strict=True):
        if getattr(stream, "closed", False) and not closed and descriptor in _OUTPUTS:
            copy = os.dup(_OUTPUTS[descriptor][0])
            stream = os.fdopen(copy, "w", buffering=1, encoding=stream.encoding, errors=stream.errors)
        found.append(stream)
    sys.stdout, sys.stderr = found


def _closes(now: list[tuple[Any, bool]], before: list[tuple[Any, bool]]) -> bool:
    return any(closed and not was for (_, closed), (_, was) in zip(now, before, strict=True))


def _logging() -> tuple[int, bool]:
    """What is not logged at all, and whether our loggers are off, as `logging.config` leaves those that it finds."""
    return logging.root.manager.disable, _LOG.disabled


def _set_logging(state: tuple[int, bool]) -> None:
    logging.disable(state[0])
    for name in [name for name in list(logging.root.manager.loggerDict) if name.startswith("agent_r1")]:
        logging.getLogger(name).disabled = state[1]


def _running_timers() -> frozenset[int]:
    return frozenset(timer for timer in _TIMERS if signal.getitimer(timer)[0])


def _has_more(now: frozenset[int], before: frozenset[int]) -> bool:
    return not now <= before


def _stop_other_timers(timers: frozenset[int]) -> None:
    for timer in _running_timers() - timers:
        signal.setitimer(timer, 0)


def _is_lower(limit: tuple[int, int], before: tuple[int, int]) -> bool:
    """Of two limits of the system."""
    return limit[0] != resource.RLIM_INFINITY and (before[0] == resource.RLIM_INFINITY or limit[0] < before[0])


def _logs_less(now: tuple[int, bool], before: tuple[int, bool]) -> bool:
    return now[0] > before[0] or now[1] > before[1]


_STATES = (
    _State("what is logged", _logging, _set_logging, _logs_less, _logs_less),  # first, so that the others are told
    _State("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit, harmful=operator.lt),
    _State(
        "torch's default dtype",
        _dtype,
        lambda dtype: sys.modules["torch"].set_default_dtype(dtype),
        harmful=operator.ne,
    ),
    _State("an alarm or timer of the system", _running_timers, _stop_other_timers, _has_more, _has_more),
    _State("the working directory", _folder, os.chdir),
    _State("sys.stdout or sys.stderr", _streams, _set_streams, harmful=_closes),
    *(
        _State("a limit of the system", partial(resource.getrlimit, kind), partial(resource.setrlimit, kind), _is_lower)
        for kind in _LIMITS
    ),
)


def _file(descriptor: int) -> tuple[int, int] | None:
    """What a descriptor leads to; None: it is closed."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


_OUTPUTS: dict[int, tuple[int, tuple[int, int]]] = {}
"""A copy of each descriptor of standard output and error, and the file that both lead to. Copies stay open while the
process lives, since a call that was given up may close a descriptor later; a tool may close a copy, too."""


def _copy_outputs() -> None:
    """Copy the descriptors that lead elsewhere than before, while no call runs that could have changed them."""
    for descriptor in (1, 2):
        file, (copy, before) = _file(descriptor), _OUTPUTS.get(descriptor, (-1, None))
        if file is None or file == before:
            continue
        with suppress(OSError):
            _OUTPUTS[descriptor] = os.dup(descriptor), file
            if before is not None and _file(copy) == before:
                os.close(copy)


class SharedProcess:
    """Watches the calls of one runner; `begin` and `end` belong to the event loop."""

    def __init__(self) -> None:
        self._running = 0
        self._authors: dict[str, None] = {}
        """What was called since nothing ran, in order: `tool search`, `Shop.step()`."""
        self._before: list[tuple[_State, Any]] = []
        """The process before the calls that run now."""
        self._on_loop = 0
        self._handlers: tuple[Any, ...] = ()
        self._told: set[str] = set()
        self._umask = os.umask(0o077)  # it cannot be read without being set
        os.umask(self._umask)

    @contextmanager
    def call(self, author: str) -> Iterator[None]:
        """Watch a call from `begin` to `end`."""
        self.begin(author)
        try:
            yield
        finally:
            self.end()

    def begin(self, author: str) -> None:
        if not self._running:
            self._before = [(state, state.read()) for state in _STATES]
            _copy_outputs()
            self._authors.clear()
        self._running += 1
        self._authors[author] = None

    def returned(self, author: str) -> None:
        """An author's code has returned; called in its thread, before anything else runs there."""
        for state, before in self._before:
            if before is not None and state.harmful(state.read(), before):
                self._put_back(author, state.name, partial(state.write, before))
        self._put_outputs_back(author, redirected=False)

    def end(self) -> None:
        """A call has ended, or was given up."""
        self._running -= 1
        if self._running:
            return
        authors = " or ".join(self._authors)
        for state, before in self._before:
            if before is not None and state.changed(state.read(), before):
                self._put_back(authors, state.name, partial(state.write, before))
        self._put_outputs_back(authors, redirected=True)
        if os.umask(self._umask) != self._umask:
            self._tell(authors, "the umask")

    def begin_on_loop(self) -> None:
        """An async tool begins to run on the event loop: only code on the main thread can change signal handlers."""
        if not self._on_loop:
            self._handlers = tuple(signal.getsignal(number) for number in _SIGNALS)
        self._on_loop += 1

    def end_on_loop(self, author: str) -> None:
        """An async tool has ended, or was given up."""
        self._on_loop -= 1
        if threading.current_thread() is not threading.main_thread():
            return
        for number, handler in zip(_SIGNALS, self._handlers, strict=True):
            if handler is not None and signal.getsignal(number) != handler:
                self._put_back(author, f"the handler of {number.name}", partial(signal.signal, number, handler))

    def _put_outputs_back(self, authors: str, *, redirected: bool) -> None:
        """Open those that are closed, and those that lead elsewhere if `redirected`."""
        for descriptor, (copy, before) in _OUTPUTS.items():
            file = _file(descriptor)
            if (file is None or (redirected and file != before)) and _file(copy) == before:
                with suppress(OSError):
                    os.dup2(copy, descriptor, inheritable=True)
                    self._tell(authors, "the descriptors of standard output and standard error")

    def _put_back(self, authors: str, what: str, write: Callable[[], object]) -> None:
        try:
            write()
        except RecursionError:
            pass  # too deep to lower the limit here: the end of the next call does
        except (OSError, ValueError) as error:
            self._tell(authors, what, f"cannot be put back ({error})")
        else:
            self._tell(authors, what)

    def _tell(self, authors: str, what: str, outcome: str = "was put back") -> None:
        if what not in self._told:
            self._told.add(what)
            _LOG.warning(
                "%s changed %s, which everything in this process shares; it %s%s",
                *(authors, what, outcome, _ADVICE if "tool " in authors else ""),
            )
