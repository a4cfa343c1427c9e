"""Work: a job that takes long, how far it is, and how long it will still take.

    with working("indexing words", len(passages), unit="passages") as work:
        for passage in passages:
            index(passage)
            work.advance(1)

Whoever shows work to people asks for it with `watched_by`. Where nobody does, as in a process of its own, it is logged
every 30 seconds, also while it does not advance; what takes less is not mentioned.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOG = logging.getLogger(__name__)
LINE_SECONDS = 30.0
"""Between two lines about the same work, where lines stay."""
_SHOW_SECONDS = 0.1
_REMIND_SECONDS = 5.0
"""Between two looks at work that may not advance."""

Show = Callable[["Work"], None]
"""Called when work begins, now and then as it advances, and when it has ended, in the thread that works; and every 30
seconds while it does not advance, in another one."""


class Work:
    """How far a job is."""

    def __init__(self, what: str, total: float | None = None, *, done: float = 0, unit: str = "") -> None:
        """Begin.

        Args:
            what: what is done, for example `encoding`.
            total: how many there are; None: unknown.
            done: how many an earlier, interrupted job has done.
            unit: what is counted, for example `passages`; `bytes` are shown as MB.
        """
        self.what, self.total, self.done, self.unit = what, total, done, unit
        self.ended = False
        self._first = done
        self._begun = self._told = time.monotonic()

    def advance(self, count: float = 1) -> None:
        """So many more are done."""
        self.done += count
        self.tell_after(_SHOW_SECONDS if _watchers else LINE_SECONDS)

    def tell_after(self, seconds: float) -> None:
        """Tell of it, if so many seconds have passed since that was done."""
        now = time.monotonic()
        if now - self._told >= seconds:
            self._told = now
            _tell(self)

    def restart(self, total: float | None) -> None:
        """Another part of the job begins, with so many to do."""
        self.total, self.done, self._first = total, 0, 0
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._begun

    @property
    def left(self) -> float | None:
        """Seconds that it will still take, at the speed so far; None: unknown."""
        advanced = self.done - self._first
        if not self.total or advanced <= 0:
            return None
        return max(0.0, self.total - self.done) / advanced * self.seconds

    def count(self) -> str:
        """How many are done: `1,200 of 5,000 passages`; empty if nothing is counted."""
        if not self.done and not self.total:
            return ""
        scale, unit = (1e6, "MB") if self.unit == "bytes" else (1, self.unit)
        done, total = f"{self.done / scale:,.0f}", f"{(self.total or 0) / scale:,.0f}"
        whole = not self.total or (self.ended and self.done >= self.total)
        return " ".join(filter(None, (done if whole else f"{done} of {total}", unit)))

    def share(self) -> str:
        """What share is done: `24 %`; empty if it is unknown."""
        return f"{100 * self.done / self.total:.0f} %" if self.total else ""

    def line(self) -> str:
        """All of it in a line: `encoding: 1,200 of 5,000 passages, 24 %, 3:05 left`."""
        text = ": ".join(filter(None, (self.what, self.count())))
        if self.ended:
            return f"{text} in {duration(self.seconds)}"
        after = f"for {duration(self.seconds)}" if self.left is None else f"{duration(self.left)} left"
        return ", ".join(filter(None, (text, self.share(), after)))


@contextmanager
def working(what: str, total: float | None = None, *, done: float = 0, unit: str = "") -> Iterator[Work]:
    """Work that goes on while the context lasts; see `Work` for the arguments."""
    work, over = Work(what, total, done=done, unit=unit), threading.Event()
    if _watchers:
        _tell(work)
    threading.Thread(target=_remind, args=(work, over), name="work", daemon=True).start()
    try:
        yield work
    finally:
        work.ended = True
        over.set()
        if _watchers:
            _tell(work)


@contextmanager
def watched_by(show: Show) -> Iterator[None]:
    """Call `show` with all work of this process, whichever thread does it, while the context lasts."""
    with _lock:
        _watchers.append(show)
    try:
        yield
    finally:
        with _lock:
            _watchers.remove(show)


def _remind(work: Work, over: threading.Event) -> None:
    while not over.wait(_REMIND_SECONDS):
        work.tell_after(LINE_SECONDS)


_watchers: list[Show] = []
_lock = threading.Lock()


def _tell(work: Work) -> None:
    with _lock:
        watchers = list(_watchers)
    for show in watchers:
        show(work)
    if not watchers:
        _LOG.warning("%s", work.line())


def duration(seconds: float) -> str:
    """`42 s`, `3:05`, `2:10:00`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
