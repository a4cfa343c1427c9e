"""The metrics of the service, as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_QUERIES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Counters:
    """Counts requests and searches."""

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
        """The searcher raised."""
        self._errors.inc()

    def batch(self, queries: int, seconds: float) -> None:
        """The searcher was called; may come from its thread."""
        self._batch.observe(queries)
        self._search.observe(seconds)

    def text(self) -> bytes:
        """All of them, in Prometheus' text format."""
        return generate_latest(self._registry)
