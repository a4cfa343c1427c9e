"""Service: one searcher behind a queue, and what its health is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from agent_r1_wiki_search.searcher import Searcher
from agent_r1_wiki_search.service.batching import Batcher, BatchLimits, Found
from agent_r1_wiki_search.service.messages import index_identity

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_QUERIES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Counters:
    """Counts requests and searches, as Prometheus reads them."""

    def __init__(self, waiting: Callable[[], float]) -> None:
        """`waiting` gives the queries that wait or are being searched."""
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "wiki_search_requests", "Requests to /search by status code", ["code"], registry=self._registry
        )
        self._errors = Counter("wiki_search_errors", "Requests that the searcher failed on", registry=self._registry)
        self._latency = Histogram(
            "wiki_search_request_seconds", "Time to answer /search", buckets=_SECONDS, registry=self._registry
        )
        self._batch = Histogram(
            "wiki_search_batch_queries", "Queries of a call of the searcher", buckets=_QUERIES, registry=self._registry
        )
        self._search = Histogram(
            "wiki_search_batch_seconds", "Time of a call of the searcher", buckets=_SECONDS, registry=self._registry
        )
        queue = Gauge("wiki_search_waiting_queries", "Queries accepted and not answered yet", registry=self._registry)
        queue.set_function(waiting)
        ProcessCollector(registry=self._registry)

    def request(self, code: int, seconds: float) -> None:
        """A request to /search was answered."""
        self._requests.labels(str(code)).inc()
        self._latency.observe(seconds)

    def error(self) -> None:
        self._errors.inc()

    def batch(self, queries: int, seconds: float) -> None:
        """The searcher was called; may come from its thread."""
        self._batch.observe(queries)
        self._search.observe(seconds)

    def text(self) -> bytes:
        """All of them, in Prometheus' text format."""
        return generate_latest(self._registry)


_LOG = logging.getLogger(__name__)


class State(Enum):
    """What the service does."""

    LOADING = "loading"
    READY = "ready"
    STOPPING = "stopping"


REASONS = {
    State.LOADING: "the index is still being loaded; try again later",
    State.STOPPING: "the service is stopping; ask another one, or this one after its restart",
}
"""Why nothing is searched."""


class Service:
    """Loads a searcher and answers searches; used from one event loop."""

    def __init__(self, load: Callable[[], Searcher], limits: BatchLimits) -> None:
        self.state = State.LOADING
        self.facts: dict[str, Any] = {}
        """What the searcher says about itself, once it is loaded."""
        self.index = ""
        """The identity of the index."""
        self.stopping = asyncio.Event()
        """Set once nothing more is accepted."""
        self.counters = Counters(lambda: self._batcher.waiting)
        self._batcher = Batcher(load, limits, self.counters.batch)

    async def load(self) -> None:
        """Load the searcher, and be ready.

        Raises:
            Exception: it cannot be loaded.
        """
        self.facts = await self._batcher.start()
        self.index = index_identity(self.facts)
        if self.state is State.LOADING:
            self.state = State.READY

    async def search(self, queries: Sequence[str], top_k: int) -> Found:
        """Search, unless the service is not ready.

        Raises:
            QueueFull: too many queries wait.
            Cut: the service ends first.
            Exception: whatever the searcher raises.
        """
        return await self._batcher.search(queries, top_k)

    async def stop(self) -> None:
        """Accept nothing more; returns when everything that was accepted is answered."""
        self._refuse()
        await self._batcher.idle()

    def cut(self) -> int:
        """Refuse what was accepted and is not answered yet; returns the number of its queries."""
        return self._batcher.cut()

    async def close(self, patience: float) -> None:
        """Close the searcher; one that is still loaded, or at work after `patience` seconds, is left to the end of the
        process."""
        self._refuse()
        self._batcher.end()
        if not await asyncio.to_thread(self._batcher.join, patience if self.facts else 0.0) and self.facts:
            _LOG.warning("the searcher is still at work and is left behind")

    def _refuse(self) -> None:
        self.state = State.STOPPING
        self.stopping.set()
