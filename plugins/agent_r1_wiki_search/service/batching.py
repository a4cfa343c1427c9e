"""Batcher: the thread of a searcher, which answers concurrent requests together.

The searcher is opened, called and closed in that thread, so that the event loop never waits for it. A call cannot be
interrupted: a searcher that hangs holds up every request.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from agent_r1_wiki_search.searcher import Hit, Searcher

Found = list[list[Hit]]


class QueueFull(Exception):
    """So many queries wait already that no more are accepted."""


class Cut(Exception):
    """The service ends before these queries are answered."""


@dataclass(frozen=True)
class BatchLimits:
    """How requests are put together."""

    size: int = 64
    """Queries of one call of the searcher."""
    wait: float = 0.002
    """Seconds that a request waits for others while the searcher is free; those that come while it works are put
    together anyway."""
    waiting: int = 1024
    """Queries that may be accepted and not answered yet."""


@dataclass(eq=False)
class _Request:
    queries: Sequence[str]
    top_k: int
    answer: asyncio.Future[Found]
    outcome: Found | Exception | None = None


class Batcher:
    """Answers searches; used from one event loop."""

    def __init__(
        self, load: Callable[[], Searcher], limits: BatchLimits, observe: Callable[[int, float], None]
    ) -> None:
        """Prepare the thread; nothing is loaded yet.

        Args:
            load: opens the searcher.
            limits: bounds of batches and of the queue.
            observe: called with the queries and the seconds of every call of the searcher.
        """
        self.waiting = 0
        """Queries that are accepted and not answered yet."""
        self._load = load
        self._limits = limits
        self._observe = observe
        self._inbox: SimpleQueue[_Request | None] = SimpleQueue()
        """None ends the thread."""
        self._pending: set[_Request] = set()
        self._thread = threading.Thread(target=self._run, name="wiki-search", daemon=True)
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self) -> dict[str, Any]:
        """Load the searcher; returns its facts.

        Raises:
            Exception: it cannot be loaded.
        """
        self._loop = asyncio.get_running_loop()
        self._loaded: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._thread.start()
        return await self._loaded

    async def search(self, queries: Sequence[str], top_k: int) -> Found:
        """The hits of each query, found together with what others ask for.

        Raises:
            QueueFull: too many queries wait.
            Cut: the service ends first.
            Exception: whatever the searcher raises for these queries.
        """
        if self.waiting + len(queries) > self._limits.waiting:
            raise QueueFull
        request = _Request(queries, top_k, self._loop.create_future())
        self.waiting += len(queries)
        self._idle.clear()
        self._pending.add(request)
        self._inbox.put(request)
        return await request.answer

    async def idle(self) -> None:
        """Wait until everything that was accepted is answered."""
        await self._idle.wait()

    def cut(self) -> int:
        """Give up what is not answered yet; returns the number of its queries."""
        cut = [request for request in self._pending if not request.answer.done()]
        for request in cut:
            request.answer.set_exception(Cut())
        return sum(len(request.queries) for request in cut)

    def end(self) -> None:
        """Have the thread close the searcher and end, after what it was given."""
        self._inbox.put(None)

    def join(self, timeout: float) -> bool:
        """Wait for the end of the thread; returns whether it ended."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            searcher = self._load()
            facts = searcher.facts()
        except Exception as error:
            self._tell(self._settle_load, error)
            return
        self._tell(self._settle_load, facts)
        try:
            self._serve(searcher)
        finally:
            searcher.close()

    def _serve(self, searcher: Searcher) -> None:
        request = self._inbox.get()
        while request is not None:
            batch, request = self._collect(request)
            _answer(searcher, batch, self._observe)
            self._tell(self._settle, batch)
            if request is _NOTHING:
                request = self._inbox.get()

    def _collect(self, first: _Request) -> tuple[list[_Request], _Request | None]:
        """A batch that begins with this request; and what was taken from the queue after it, or `_NOTHING`."""
        batch, count, deadline = [first], len(first.queries), time.monotonic() + self._limits.wait
        while count < self._limits.size:
            try:
                left = deadline - time.monotonic()
                request = self._inbox.get(timeout=left) if left > 0 else self._inbox.get_nowait()
            except Empty:
                break
            if request is None or count + len(request.queries) > self._limits.size:
                return batch, request
            batch.append(request)
            count += len(request.queries)
        return batch, _NOTHING

    def _settle(self, batch: Sequence[_Request]) -> None:
        for request in batch:
            self.waiting -= len(request.queries)
            self._pending.discard(request)
            if request.answer.done():
                continue  # the client is gone
            if isinstance(request.outcome, list):
                request.answer.set_result(request.outcome)
            else:
                request.answer.set_exception(request.outcome or RuntimeError("the searcher gave no answer"))
        if not self.waiting:
            self._idle.set()

    def _settle_load(self, outcome: dict[str, Any] | Exception) -> None:
        if self._loaded.done():
            return
        if isinstance(outcome, Exception):
            self._loaded.set_exception(outcome)
        else:
            self._loaded.set_result(outcome)

    def _tell(self, settle: Callable[[Any], None], outcome: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop ended, so nobody waits
            self._loop.call_soon_threadsafe(settle, outcome)


_NOTHING: Any = object()


def _answer(searcher: Searcher, batch: Sequence[_Request], observe: Callable[[int, float], None]) -> None:
    """Call the searcher once for all requests that ask for the same number of passages."""
    for top_k in dict.fromkeys(request.top_k for request in batch):
        same = [request for request in batch if request.top_k == top_k]
        try:
            _search(searcher, same, observe)
        except Exception as error:
            if len(same) == 1:
                same[0].outcome = error
                continue
            for request in same:  # the query at fault fails alone
                _answer(searcher, [request], observe)


def _search(searcher: Searcher, requests: Sequence[_Request], observe: Callable[[int, float], None]) -> None:
    queries = [query for request in requests for query in request.queries]
    begun = time.perf_counter()
    found = searcher.search(queries, requests[0].top_k)
    observe(len(queries), time.perf_counter() - begun)
    if len(found) != len(queries):
        raise RuntimeError(f"the searcher answered {len(queries)} queries with {len(found)} results")
    results = iter(found)
    for request in requests:
        request.outcome = [next(results) for _ in request.queries]
