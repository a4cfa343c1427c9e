"""Concurrent requests become one call of the searcher; the commands."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from agent_r1_wiki_search.commands import bench, build, query
from agent_r1_wiki_search.searcher import Hit
from agent_r1_wiki_search.serve_command import serve
from agent_r1_wiki_search.service.batching import Batcher, BatchLimits, QueueFull

from agent_r1_core import Passage
from agent_r1_core.testing import CommandContract


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


class TestCommands(CommandContract):
    components = (build, serve, query, bench)


@pytest.mark.usefixtures("_tantivy")
def test_an_index_is_built_queried_and_measured(agent_r1: Any, tmp_path: Path, write_corpus: Any) -> None:
    corpus = write_corpus([Passage("Oslo", "The capital of Norway."), Passage("Lyon", "A city.")])
    done = agent_r1("wiki", "build", corpus, tmp_path / "index")
    assert done.exit_code == 0, done.stderr
    assert f"{tmp_path}/index: 2 passages for tantivy" in done.stdout
    assert done.stderr == "", "nothing took long"
    shown = agent_r1("wiki", "query", tmp_path / "index", "Norway's capital?")
    assert shown.stdout.endswith("  Oslo\nThe capital of Norway.\n")
    answer = json.loads(agent_r1("wiki", "query", tmp_path / "index", "Norway", "--json").stdout)
    assert [hit["title"] for hit in answer["hits"]] == ["Oslo"]
    assert answer["facts"]["corpus"] == str(corpus)
    measured = agent_r1("wiki", "bench", tmp_path / "index").stdout
    assert "own passage among the first 10       100.0%" in measured


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("build broken.jsonl index", 1, "line 1 of"),
        ("query index x", 1, "there is no index in"),
        ("query broken.jsonl x", 1, "broken.jsonl is a file, not an index folder; if it is a corpus,"),
        ("build broken.jsonl x --backend dense --model ./no", 1, "no encoder at ./no"),
        ("query index ", 2, "the question is empty"),
    ],
)
@pytest.mark.usefixtures("_tantivy")
def test_a_failure_is_one_sentence_and_an_exit_code(
    agent_r1: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, code: int, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.jsonl").write_text("{")
    done = agent_r1("wiki", *words.split(" "))
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr.startswith("error: ")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
