"""Live: tells open pages what has changed in a run's files.

One thread of the server looks at sizes and times about once a second, for all pages together, and only while one of
them listens. It opens no file but the run's lock and its events.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

from agent_r1_cli.viewer.opened_runs import OpenedRun, OpenedRuns
from agent_r1_core.errors import AgentR1Error

SECONDS = 0.8
"""Between two looks."""
SILENCE = 15.0
"""Seconds after which a page that hears nothing is told that the server lives."""
PARTS = {
    "metrics": ("metrics.jsonl",),
    "episodes": ("trajectories",),
    "evaluations": ("evaluations",),
    "events": ("events.jsonl", "health.jsonl"),
}
"""What changes, and the files or folders that show it."""
_REST = 9
"""Times as long as a look took until the next one: to watch a huge folder takes a tenth of a core."""
Change = tuple[str, str]
"""The run's id and the part; the part `runs` has no run."""
_Signs = dict[Change, object]


class Live:
    """The watcher, and the pages that listen to it."""

    def __init__(self, runs: OpenedRuns, seconds: float = SECONDS) -> None:
        self._runs = runs
        self._seconds = seconds
        self._pages: dict[asyncio.Queue[Change | None], frozenset[str]] = {}
        self._task: asyncio.Task[None] | None = None
        self._looked = asyncio.Event()
        self._closed = False

    async def events(self, wanted: Iterable[str]) -> AsyncIterator[str]:
        """Server-sent events about some runs, or about all if none is named, until `close`."""
        page: asyncio.Queue[Change | None] = asyncio.Queue()
        self._pages[page] = frozenset(wanted)
        if self._task is None:
            self._looked.clear()
            self._task = asyncio.create_task(self._watch())
        try:
            await self._looked.wait()
            yield "event: watching\ndata: {}\n\n"  # from now on, every change is told
            while not self._closed:
                try:
                    change = await asyncio.wait_for(page.get(), SILENCE)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if change is None:
                    return
                yield f"event: changed\ndata: {json.dumps({'run': change[0], 'what': change[1]})}\n\n"
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
            before = await self._look()
            self._looked.set()
            took = 0.0
            while self._pages and not self._closed:
                await asyncio.sleep(max(self._seconds, _REST * took))
                begun = time.monotonic()
                now = await self._look()
                took = time.monotonic() - begun
                for change in _changes(before, now):
                    self._tell(change)
                before = now
        finally:
            self._task = None
            self._looked.set()  # whoever waits for a look that failed hears nothing, and is not kept

    async def _look(self) -> _Signs:
        wanted = set().union(*self._pages.values()) if all(self._pages.values()) else None
        return await asyncio.to_thread(_look, self._runs.all, wanted)

    def _tell(self, change: Change) -> None:
        for page, wanted in self._pages.items():
            if not wanted or change[0] in wanted or change[1] == "runs":
                page.put_nowait(change)


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


def _changes(before: _Signs, now: _Signs) -> list[Change]:
    """Parts that look other than before; those of a run that is new are no news but in `runs`."""
    return [key for key, sign in now.items() if key in before and before[key] != sign]
