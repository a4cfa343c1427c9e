"""The tool with the backend `remote`, and real services that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_r1_wiki_search.tool import WikiSearch

from agent_r1_core import Passage, ToolCall, ToolResources
from agent_r1_core.metrics.rollouts import mean_of_sum
from agent_r1_core.tools.tool_runner import ToolRunner

from ..conftest import tool_context

pytestmark = pytest.mark.slow

SERVE = ("-m", "agent_r1_cli", "wiki", "serve")
AWAY = "Error: the search service does not answer; go on without it, or try again later"
CLIENTS = 64
TITLES = 768
"""That they look for, together."""


@pytest.fixture
def serve(start: Any) -> Callable[..., Any]:
    """Starts a service of a corpus; on any free port, or where another one was."""

    def begin(corpus: Path, before: Any = None) -> Any:
        return start(*SERVE, corpus, "--port", 0 if before is None else before.url.rpartition(":")[2])

    return begin


def remote(url: str, **options: Any) -> WikiSearch:
    tool = WikiSearch(WikiSearch.Config(backend="remote", url=url, **options))
    tool.name = "wiki_search"
    return tool


def call(query: str) -> ToolCall:
    return ToolCall("wiki_search", {"query": query})


async def test_a_service_that_is_killed_and_restarted_costs_its_clients_errors_and_nothing_else(
    serve: Callable[..., Any], corpus: Path, tmp_path: Path
) -> None:
    titles = [f"{number} {word}" for number in range(TITLES // 3) for word in ("France", "demon", "rock band")]
    local = WikiSearch(WikiSearch.Config(corpus=str(corpus), top_k=3))
    local.open(ToolResources(str(tmp_path)))
    expected = {title: local.run(local.Arguments(query=title), tool_context("local")) for title in titles}
    service = serve(corpus)
    runner = ToolRunner({"wiki_search": remote(service.url, top_k=3, retries=1, cache=0)}, max_concurrency=CLIENTS)
    errors: list[str] = []
    wrong: list[str] = []
    answered = 0

    enough, missed, back = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def client(number: int) -> None:
        nonlocal answered
        for title in titles[number::CLIENTS]:
            while (result := await runner.call(call(title), tool_context(f"{number}"))).error:
                errors.append(result.text)
                missed.set()
                await back.wait()
            answered += 1
            wrong.extend([title] * (result.text != expected[title]))
            if answered == TITLES // 3:
                enough.set()

    await runner.start(ToolResources(str(tmp_path)))
    try:
        clients = [asyncio.create_task(client(number)) for number in range(CLIENTS)]
        await enough.wait()
        service.process.kill()
        await missed.wait()
        await asyncio.to_thread(serve, corpus, service)
        back.set()
        await asyncio.gather(*clients)
    finally:
        await runner.close()
    count = runner.counts.by_tool["wiki_search"]
    assert answered == TITLES
    assert wrong == []
    assert set(errors) == {AWAY}
    assert (count.calls, count.errors, count.timeouts) == (answered + len(errors), len(errors), 0)
    assert mean_of_sum(*count.numbers["away"]) == pytest.approx(len(errors) / count.calls)


async def test_in_a_process_of_its_own_it_says_what_it_searches_and_survives_the_service(
    serve: Callable[..., Any], corpus: Path, write_corpus: Any, tmp_path: Path
) -> None:
    service = serve(corpus)
    runner = ToolRunner({"wiki_search": remote(service.url, retries=0, cache=0)}, isolation={"wiki_search": "process"})
    other = write_corpus([Passage("Nice", "A city of the Riviera, not on the Rhone.")], "other.jsonl")
    texts = []
    await runner.start(ToolResources(str(tmp_path)))
    try:
        for number, served in enumerate((corpus, None, other, corpus)):
            if number:
                service.process.kill()
                service.process.wait()
                if served is not None:
                    service = await asyncio.to_thread(serve, served, service)
            texts.append((await runner.call(call("Rhone"), tool_context(str(number)))).text)
    finally:
        await runner.close()
    found = "Lyon\nLyon is a city in France, on the Rhône."
    withheld = "Error: the search service searches another corpus than at the start; go on without it"
    assert texts == [found, AWAY, withheld, found]
    facts = runner.describe()["wiki_search"]
    assert facts["url"] == service.url
    assert (facts["backend"], facts["served"], facts["passages"], facts["corpus"]) == ("remote", "bm25", 6, str(corpus))
    assert {"hash", "index"} <= set(facts)
