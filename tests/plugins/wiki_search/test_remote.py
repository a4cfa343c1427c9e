"""The backend `remote` against a service that does what a test says."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from agent_r1_wiki_search import connection, remote
from agent_r1_wiki_search.connection import Call
from agent_r1_wiki_search.remote import RemoteSearcher, Unavailable
from agent_r1_wiki_search.searcher import Hit

from agent_r1_core import Passage, ToolError

from .conftest import FACTS, HEALTH

BODY = json.dumps(HEALTH).encode()
REST = b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(BODY), BODY)
DRIPS = {
    "a status line": (b"HTTP/1.1 200 ", b"O", b"\r\n" + REST),
    "a header": (b"HTTP/1.1 200 OK\r\nx: ", b"a", b"\r\n" + REST),
    "informational answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + REST),
    "a body": (b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", b" ", BODY),
}
"""What an answer begins with, what then comes many times, and the rest."""


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(remote, "_POLL_SECONDS", 0.0)


@pytest.fixture
def connect(service: Any) -> Iterator[Callable[..., RemoteSearcher]]:
    opened: list[RemoteSearcher] = []

    def begin(**options: Any) -> RemoteSearcher:
        opened.append(RemoteSearcher(service.url, **options))
        return opened[-1]

    yield begin
    for searcher in opened:
        searcher.close()


def titles(found: list[list[Hit]]) -> list[list[str]]:
    return [[hit.passage.title for hit in hits] for hits in found]


def test_it_finds_what_the_service_finds_once_it_has_loaded_and_says_what_that_searches(connect, service) -> None:
    loading = {"status": "loading", "index": "", "facts": {}}
    service.healths += [(503, loading), (503, loading)]
    searcher = connect()
    assert searcher.search(["a", "\ud800"], 2) == [[Hit(Passage(query, ""), 1.0)] * 2 for query in "a?"]
    assert service.requests == [{"queries": ["a", "?"], "top_k": 2}], "what is no Unicode is asked as a question mark"
    assert searcher.facts() == FACTS | {"backend": "remote", "served": "bm25", "url": service.url, "index": "1"}


@pytest.mark.parametrize(
    ("health", "sentence"),
    [
        ((404, b"<html>"), r"what answers at http://\S+ is no search service; correct the option url"),
        ((200, {"status": "ready"}), "is no search service"),
        ((503, {"status": "stopping", "index": "1", "facts": FACTS}), "is stopping; try again"),
        ((403, {"error": "this service answers to localhost"}), "refuses: this service answers to localhost"),
        ((502, b""), r"does not answer \(status 502\); start it with"),
        ((200, HEALTH | {"index": "2"}), r"serves the index 2 \(backend bm25, .*hash c0\) and not 1; serve that one"),
    ],
)
def test_what_is_not_the_service_is_one_sentence(connect, service, health: Any, sentence: str) -> None:
    service.healths += [health] * 2
    with pytest.raises(ToolError, match=sentence):
        connect(serves="1", retries=1)


def test_a_service_that_is_not_there_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ToolError, match=rf"{url} does not answer \(ConnectError: .*\); start it with `agent-r1 w"):
        RemoteSearcher(url, retries=1)


def test_a_search_that_failed_on_the_way_is_repeated_and_what_the_service_refuses_is_not(connect, service) -> None:
    searcher = connect(retries=2)
    for failure in (None, (503, {"error": "busy"}), (502, b"")):
        service.script += [failure, failure]
        assert titles(searcher.search(["a"], 1, call := Call())) == [["a"]]
        assert (call.repeats, call.away) == (2, False)
    service.script.append((503, {"error": "busy"}, "3600"))
    before = len(service.requests)
    with pytest.raises(Unavailable):
        searcher.search(["a"], 1)
    service.script.append((422, {"error": "the request is wrong: queries.0: a query is empty"}))
    with pytest.raises(ToolError, match="refused the search: the request is wrong") as refusal:
        searcher.search([" "], 1)
    assert not isinstance(refusal.value, Unavailable)
    assert len(service.requests) == before + 2


def test_while_the_service_is_away_calls_try_once_and_it_is_said_once(connect, service, caplog) -> None:
    searcher = connect(retries=2)
    service.script += [(503, {"error": "busy"})] * 4
    for requests in (3, 4):
        with pytest.raises(Unavailable, match="does not answer; go on without it"):
            searcher.search(["a"], 1, call := Call())
        assert call.away
        assert len(service.requests) == requests
    assert [record.message for record in caplog.records] == [
        f"the search service at {service.url} does not answer (busy): its calls get an error"
    ]
    assert titles(searcher.search(["a"], 1)) == [["a"]]
    assert caplog.messages[1:] == [f"the search service at {service.url} answers again"]
    service.script += [None]
    assert titles(searcher.search(["a"], 1, call := Call())) == [["a"]]
    assert call.repeats == 1


RIGHT = '{"results": [[{"title": "a", "text": "", "score": 1}]], "index": "1"'


@pytest.mark.parametrize(
    "reply",
    [
        {"results": [], "index": "1"},
        {"results": [[{"title": "a"}]], "index": "1"},
        b"\xff",
        b"[" * 200_000,
        f'{RIGHT}, "beside": {"[" * 500 + "]" * 500}}}'.encode(),
        f'{RIGHT}, "beside": [{"[]," * 500_000}0]}}'.encode(),
    ],
)
def test_an_answer_that_makes_no_sense_or_would_take_much_memory_is_an_error(connect, service, reply: Any) -> None:
    searcher = connect()
    service.script.append((200, reply))
    with pytest.raises(Unavailable, match="does not fit the question"):
        searcher.search(["a"], 1)
    service.script.append((200, f'{RIGHT}, "beside": [1]}}'.encode()))
    assert titles(searcher.search(["a"], 1)) == [["a"]]


def test_a_query_is_asked_once_and_then_known(connect, service) -> None:
    searcher = connect(cache=10)
    assert titles(searcher.search(["a", "b", "a"], 1)) == [["a"], ["b"], ["a"]]
    assert titles(searcher.search(["b", "c"], 1)) == [["b"], ["c"]]
    searcher.search(["a"], 2)
    assert [request["queries"] for request in service.requests] == [["a", "b"], ["c"], ["a"]]
    forgetful = connect(cache=0)
    assert forgetful.search(["a"], 1) == forgetful.search(["a"], 1)
    assert len(service.requests) == 5
    small = connect(cache=1)
    for query in "aba":
        small.search([query], 1)
    assert len(service.requests) == 8, "only the last one is kept"


@pytest.mark.parametrize("what", DRIPS)
def test_an_answer_that_drips_ends_with_the_call(connect, service, what, monkeypatch) -> None:
    outlasted = []

    def dripping() -> Iterator[bytes]:
        first, piece, rest = DRIPS[what]
        yield first
        for _ in range(400):
            yield piece
            threading.Event().wait(0.01)
        outlasted.append(what)
        yield rest

    searcher = connect(retries=0)
    service.script.append(dripping())
    with pytest.raises(Unavailable):
        searcher.search(["a"], 1, Call(time.monotonic() + 0.2))
    monkeypatch.setattr(connection, "CALL_SECONDS", 0.2)
    service.healths.append(dripping())
    with pytest.raises(ToolError, match=r"does not answer \(ReadTimeout: timed out\); start it with"):
        connect(retries=0)
    assert outlasted == []


def endless() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (1 << 40)
    while True:
        yield b" "


def test_no_answer_and_an_endless_one_end_with_the_call(connect, service, caplog, monkeypatch) -> None:
    searcher = connect(retries=0)
    with service.lock, pytest.raises(Unavailable):  # the lock keeps the service from answering
        searcher.search(["a"], 1, Call(time.monotonic() + 0.2))
    assert titles(searcher.search(["a"], 1)) == [["a"]]
    for _ in range(100):  # the service answers the first one late, on a busy machine even later
        if len(service.requests) > 1:
            break
        threading.Event().wait(0.05)
    service.script.append(endless())
    with pytest.raises(Unavailable):
        searcher.search(["a"], 1, Call(time.monotonic() + 0.2))
    assert "ReadTimeout" in caplog.text
    monkeypatch.setattr(remote, "_LONGEST_ANSWER", 10_000)
    assert titles(searcher.search(["a"], 1)) == [["a"]]
    service.script.append(endless())
    with pytest.raises(Unavailable):
        searcher.search(["a"], 1, Call(time.monotonic() + 3600))
    assert "its answer is longer than 10000 bytes" in caplog.text


def test_closing_leaves_no_connection_and_no_thread(service) -> None:
    def sockets() -> int:
        links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        return sum(os.readlink(link).startswith("socket:") for link in links if os.path.islink(link))

    before, threads = sockets(), set(threading.enumerate())
    searcher = RemoteSearcher(service.url)
    searcher.search(["a"], 1)
    assert sockets() > before
    searcher.close()
    service.shutdown()
    while set(threading.enumerate()) - threads:  # of the server's side, which see their connections end
        pass
    assert sockets() == before
    with pytest.raises(Unavailable):
        searcher.search(["a"], 1)
