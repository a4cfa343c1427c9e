"""Live: tells open pages what has changed in a run's files.

One thread of the server looks at sizes and times about once a second, for all pages together, and only while one of
them listens. It opens no file but the run's lock and its events.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

from agent_r1_core.errors import AgentR1Error
from agent_r1_viewer.opened_runs import OpenedRun, OpenedRuns

SECONDS = 0.8
"""Between two looks."""
SILENCE = 15.0
"""Seconds without news after which a page hears that the server lives."""
PARTS = {
    "metrics": ("metrics.jsonl",),
    "episodes": ("trajectories",),
    "evaluations": ("evaluations",),
    "events": ("events.jsonl", "health.jsonl"),
}
"""What changes, and the files or folders that show it."""
_REST = 9
"""Times as long as a look took until the next one: to watch a huge folder takes a tenth of a core."""
_KEPT = 1000
"""Changes that a page may have missed."""
Change = tuple[str, str]
"""The run's id and the part; the part `runs` has no run."""
_Signs = dict[Change, object]


class Live:
    """The watcher, and the pages that listen to it.

    Every change has a number. An answer says the number of the last change before it, its `position`, and a page that
    listens from there on misses nothing and hears nothing twice.
    """

    def __init__(self, runs: OpenedRuns) -> None:
        self._runs = runs
        self._pages: dict[asyncio.Queue[str | None], frozenset[str]] = {}
        self._task: asyncio.Task[None] | None = None
        self._looked = asyncio.Event()
        self._closed = False
        self._seen: _Signs | None = None
        """What was seen of every run when somebody looked last."""
        self._changes: list[Change] = []
        self._dropped = 0
        """How many changes are no longer kept."""
        self._server = secrets.token_hex(4)
        """Another server counts anew."""

    @property
    def position(self) -> str:
        """The number of the last change before an answer that is read now; empty before the first look."""
        return "" if self._seen is None else self._at(self._dropped + len(self._changes))

    async def begin(self) -> None:
        """Look for the first time, so that answers have a position."""
        if self._seen is None:
            await self._look(None)

    async def events(self, wanted: Iterable[str], since: str = "") -> AsyncIterator[str]:
        """Server-sent events about some runs, or about all if none is named, until `close`.

        Args:
            since: the position from which on the page wants to hear; one that is not known tells it that all of its
                runs may have changed.
        """
        page: asyncio.Queue[str | None] = asyncio.Queue()
        self._pages[page] = runs = frozenset(wanted)
        if self._task is None:
            self._looked.clear()
            self._task = asyncio.create_task(self._watch())
        try:
            for missed in self._since(since, runs):
                page.put_nowait(missed)
            await self._looked.wait()
            yield "event: watching\ndata: {}\n\n"  # from now on, the page hears of every change
            while not self._closed:
                try:
                    told = await asyncio.wait_for(page.get(), SILENCE)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if told is None:
                    return
                yield told
        finally:
            del self._pages[page]

    def close(self) -> None:
        """End all events, now and later; from the thread of the server."""
        self._closed = True
        for page in self._pages:
            page.put_nowait(None)

    async def _watch(self) -> None:
        """Tell pages about changes as long as there are pages."""
        try:
            took = 0.0
            while self._pages and not self._closed:
                begun = time.monotonic()
                await self._look(set().union(*self._pages.values()) if all(self._pages.values()) else None)
                took = time.monotonic() - begun
                self._looked.set()
                await asyncio.sleep(max(SECONDS, _REST * took))
        finally:
            self._task = None
            self._looked.set()  # a page that waits for a look that failed hears nothing, and goes

    async def _look(self, wanted: set[str] | None) -> None:
        """Look at some runs, or at all, and tell what is new about them."""
        now = await asyncio.to_thread(_look, self._runs.all, wanted)
        first, self._seen = self._seen is None, self._seen or {}
        changes = [] if first else [key for key, sign in now.items() if self._seen.get(key) != sign]
        self._seen |= now
        for change in changes:
            self._changes.append(change)
            self._tell(change)
        if len(self._changes) > 2 * _KEPT:
            self._dropped += len(self._changes) - _KEPT
            del self._changes[:-_KEPT]

    def _tell(self, change: Change) -> None:
        told = _event(change, self.position)
        for page, wanted in self._pages.items():
            if _concerns(change, wanted):
                page.put_nowait(told)

    def _since(self, position: str, wanted: frozenset[str]) -> list[str]:
        """What a page has missed that listens again, or for the first time."""
        kept = range(self._dropped, self._dropped + len(self._changes) + 1)
        start = next((number for number in kept if self._at(number) == position), None)
        if start is None or self._seen is None:
            return [_event((run, "episodes"), self.position) for run in wanted] or [_event(("", "runs"), self.position)]
        changes = enumerate(self._changes[start - self._dropped :], start + 1)
        return [_event(change, self._at(number)) for number, change in changes if _concerns(change, wanted)]

    def _at(self, number: int) -> str:
        return f"{self._server}-{number}"


def _event(change: Change, position: str) -> str:
    about = json.dumps({"run": change[0], "what": change[1]})
    return f"event: changed\nid: {position}\ndata: {about}\n\n"


def _concerns(change: Change, wanted: frozenset[str]) -> bool:
    return not wanted or change[0] in wanted or change[1] == "runs"


def _look(runs: Callable[[], list[OpenedRun]], wanted: set[str] | None) -> _Signs:
    """What is to be seen of runs, of all or of those that somebody wants."""
    found = runs()
    signs: _Signs = {("", "runs"): frozenset(run.id for run in found)}
    for run in found:
        if wanted is not None and run.id not in wanted:
            continue
        for part, names in PARTS.items():
            signs[run.id, part] = tuple(_sign(run.reader.path / name) for name in names)
        with contextlib.suppress(AgentR1Error, OSError):
            signs[run.id, "state"] = run.summary.state().kind
    return signs


def _sign(path: Path) -> tuple[int, ...] | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns
