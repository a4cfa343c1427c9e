"""Concurrent requests become one call of the searcher."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from agent_r1_wiki_search.searcher import Hit
from agent_r1_wiki_search.service.batching import Batcher, BatchLimits, QueueFull

from agent_r1_core import Passage


class Gated:
    """Waits in its first call until it is let go; records its calls."""

    def __init__(self) -> None:
        self.begun, self.gate = threading.Event(), threading.Event()
        self.calls: list[tuple[list[str], int]] = []
        self.closed_by: str | None = None

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        self.calls.append((list(queries), top_k))
        self.begun.set()
        self.gate.wait()
        if "bad" in queries:
            raise ValueError("bad")
        return [[Hit(Passage(query, ""), float(number)) for number in range(top_k)] for query in queries]

    def facts(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        self.closed_by = threading.current_thread().name


@asynccontextmanager
async def batching(searcher: Gated, limits: BatchLimits) -> AsyncIterator[Batcher]:
    """A batcher that is ended well."""
    batcher = Batcher(lambda: searcher, limits, lambda queries, seconds: None)
    await batcher.start()
    try:
        yield batcher
    finally:
        await batcher.idle()
        batcher.end()
        assert batcher.join(60)
        assert batcher.waiting == 0
        assert searcher.closed_by == "wiki-search"


async def batched(limits: BatchLimits, requests: Sequence[tuple[Sequence[str], int]]) -> tuple[Gated, list[Any]]:
    """The answers to requests that come while the searcher is busy with another one."""
    searcher = Gated()
    async with batching(searcher, limits) as batcher:
        first = asyncio.create_task(batcher.search(["first"], 1))
        await asyncio.to_thread(searcher.begun.wait)
        rest = [asyncio.create_task(batcher.search(*request)) for request in requests]
        await asyncio.sleep(0)
        searcher.gate.set()
        await first
        return searcher, await asyncio.gather(*rest, return_exceptions=True)


def found(answer: list[list[Hit]]) -> list[tuple[str, int]]:
    return [(hits[0].passage.title, len(hits)) for hits in answer]


async def test_what_comes_while_it_searches_is_searched_together_and_everybody_gets_their_own() -> None:
    requests = [(["a", "b"], 2), (["c"], 3), (["d"], 2)]
    searcher, answers = await batched(BatchLimits(), requests)
    assert [found(answer) for answer in answers] == [[("a", 2), ("b", 2)], [("c", 3)], [("d", 2)]]
    assert searcher.calls == [(["first"], 1), (["a", "b", "d"], 2), (["c"], 3)]


async def test_a_batch_has_at_most_its_size_and_keeps_a_request_whole() -> None:
    requests = [(["a", "b"], 1), (["c", "d"], 1), (["e"], 1), (["f", "g", "h", "i"], 1)]
    searcher, answers = await batched(BatchLimits(size=3), requests)
    assert [queries for queries, _ in searcher.calls[1:]] == [["a", "b"], ["c", "d", "e"], ["f", "g", "h", "i"]]
    assert [len(answer) for answer in answers] == [2, 2, 1, 4]


async def test_only_the_query_at_fault_fails_and_a_full_queue_takes_nothing_more() -> None:
    _, answers = await batched(BatchLimits(waiting=4), [(["a"], 1), (["bad"], 1), (["b"], 1), (["c"], 1)])
    assert [found(answers[0]), found(answers[2])] == [[("a", 1)], [("b", 1)]]
    assert [type(answers[1]), type(answers[3])] == [ValueError, QueueFull]


async def test_a_request_waits_for_others_while_nothing_is_searched() -> None:
    searcher = Gated()
    searcher.gate.set()
    async with batching(searcher, BatchLimits(size=3, wait=60)) as batcher:
        first = asyncio.create_task(batcher.search(["a"], 1))
        while not first.done() and (batcher.waiting == 0 or not batcher._inbox.empty()):  # the thread takes it
            await asyncio.sleep(0)
        await asyncio.gather(first, *(batcher.search([query], 1) for query in "bc"))
    assert searcher.calls == [(["a", "b", "c"], 1)]


async def test_a_searcher_that_cannot_be_loaded_says_why() -> None:
    def load() -> Any:
        raise OSError("no such index")

    batcher = Batcher(load, BatchLimits(), lambda queries, seconds: None)
    with pytest.raises(OSError, match="no such index"):
        await batcher.start()
    assert batcher.join(60)
