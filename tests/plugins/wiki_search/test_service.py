"""The service, as a program that is asked over HTTP, and the command `serve`."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from agent_r1_wiki_search.bm25 import Words, open_bm25
from agent_r1_wiki_search.corpus import read_corpus
from agent_r1_wiki_search.service.messages import EXAMPLE, index_identity

pytestmark = pytest.mark.slow

GATED = Path(__file__).with_name("gated_service.py")


def wait_until(condition: Any) -> None:
    """Ask until it is so; the service answers each question."""
    while not condition():
        pass


def loaded(start, *limits):
    """A service whose searcher waits before every call."""
    service = start(GATED, *limits)
    service.open_gate()
    assert service.line() == "ready"
    return service


@pytest.fixture
def gated(start):
    """A loaded one; 2 queries may wait."""
    return loaded(start, 2, 3600, 3600)


@pytest.fixture
def others():
    """Asks from other threads."""
    with ThreadPoolExecutor() as threads:
        yield threads


def asked(service: Any, others: ThreadPoolExecutor, *queries: str, top_k: int = 1) -> Future[httpx2.Response]:
    """A request that the service has accepted."""
    before = service.metric("wiki_search_waiting_queries")
    answer = others.submit(service.post, *queries, top_k=top_k)
    wait_until(lambda: service.metric("wiki_search_waiting_queries") == before + len(queries))
    return answer


def titles(answer: httpx2.Response) -> list[list[str]]:
    assert answer.status_code == 200, answer.text
    return [[hit["title"] for hit in hits] for hits in answer.json()["results"]]


def test_an_index_is_the_same_wherever_its_files_lie() -> None:
    facts = {"backend": "bm25", "corpus": "a.jsonl", "hash": "1"}
    assert index_identity(facts) == index_identity({"hash": "1", "corpus": "b.jsonl", "backend": "bm25"})
    assert index_identity(facts) != index_identity(facts | {"hash": "2"})
    dense = facts | {"model": "a", "weights": "1"}
    assert index_identity(dense) == index_identity(dense | {"model": "b"}) != index_identity(facts)


def test_a_wrong_request_gets_one_sentence(gated) -> None:
    for given, status, sentence in (
        ({"json": {"queries": []}}, 422, f"the request is wrong: queries is empty; send {EXAMPLE}"),
        ({"json": {"queries": ["a", " "]}}, 422, "the request is wrong: queries.1 is empty; send"),
        ({"json": {"queries": ["a" * 2001]}}, 422, "wrong: queries.0 has more than 2000 characters; send"),
        ({"json": {"queries": ["a"], "top_k": 101}}, 422, "wrong: top_k is above 100; send"),
        ({"json": {"queries": ["a"], "top_k": True}}, 422, "wrong: top_k is no whole number; send"),
        ({"json": {"queries": [1]}}, 422, "wrong: queries.0 is no text; send"),
        ({"json": {"queries": ["a"], "topk": 1}}, 422, "topk is unknown, since the fields are queries and top_k; send"),
        ({"json": {"query": "a"}}, 422, "queries is missing; query is unknown, since the fields are"),
        ({"json": ["a"]}, 422, "the request is wrong: the body is no JSON object; send"),
        ({"content": b"{"}, 422, "wrong: the body is not JSON (EOF while parsing an object at line 1 column 1); send"),
        ({"content": b"[" * 100_000}, 422, "the request is wrong: the body is not JSON ("),
        ({"content": b" " * (1 << 22)}, 413, "longer than"),
    ):
        counted = f'wiki_search_requests_total{{code="{status}"}}'
        before = gated.metric(counted)
        answer = httpx2.post(f"{gated.url}/search", **given, timeout=60)
        assert answer.status_code == status, sentence
        assert sentence in answer.json()["error"]
        assert gated.metric(counted) == before + 1


def test_it_reads_json_whatever_its_type_and_answers_to_its_names_and_to_none_that_a_stranger_led_here(gated) -> None:
    for headers in ({}, {"content-type": "application/x-www-form-urlencoded"}):
        gated.open_gate()
        answer = httpx2.post(f"{gated.url}/search", content=b'{"queries": ["a"]}', headers=headers, timeout=60)
        assert titles(answer) == [["a"]]
    for host in ("LOCALHOST:1", "127.0.0.1:8765", "10.0.0.7", "[::1]:80", "[fe80::1]", socket.gethostname()):
        assert httpx2.get(f"{gated.url}/health", headers={"host": host}, timeout=60).status_code == 200
    for host in ("evil.example:8765", "127.0.0.1.evil.example", "localhost.evil.example", "localhost:x", ""):
        for method, path in (("GET", "/health"), ("GET", "/metrics"), ("POST", "/search"), ("GET", "/openapi.json")):
            answer = httpx2.request(
                method, gated.url + path, headers={"host": host}, json={"queries": ["a"]}, timeout=60
            )
            assert answer.status_code == 403
            assert answer.json()["error"].startswith("this service answers to IP addresses and to localhost, ")


def half_a_request(service: Any) -> socket.socket:
    """A connection on which the rest of a request never comes."""
    host, port = service.url.removeprefix("http://").split(":")
    opened = socket.create_connection((host, int(port)), 30)
    opened.sendall(b"POST /search HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
    return opened


def all_of(opened: socket.socket) -> bytes:
    with opened, opened.makefile("rb") as answer:
        return answer.read()


def test_a_body_that_does_not_come_in_is_refused(start) -> None:
    service = start(GATED, 2, 3600, 0.1)
    answer = all_of(half_a_request(service))
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the request did not come in within 0.1 seconds; send it again" in answer


def test_what_has_not_come_in_and_what_nobody_reads_do_not_hold_up_the_end(gated) -> None:
    half, unread = half_a_request(gated), half_a_request(gated)
    body = b'"queries": ["long"]}'
    unread.sendall(body.ljust(99))
    gated.open_gate()
    assert unread.recv(1)
    gated.process.send_signal(signal.SIGTERM)
    assert all_of(half).startswith(b"HTTP/1.1 503 ")
    assert gated.process.wait(timeout=60) == 0
    unread.close()


def test_a_full_queue_and_a_failing_searcher_are_errors_of_their_requests_alone(gated, others) -> None:
    first, second = (asked(gated, others, name) for name in ("bad", "good"))
    refused = gated.post("third")
    assert (refused.status_code, int(refused.headers["Retry-After"]) > 0) == (503, True)
    assert refused.json()["error"] == "too many queries wait already; try again later"
    gated.open_gate(2)
    assert first.result().status_code == 500
    assert first.result().json()["error"] == "the searcher failed with ValueError: a bad query"
    assert titles(second.result()) == [["good"]]
    assert gated.metric("wiki_search_errors_total") == 1


def test_requests_that_come_together_are_searched_together_and_everybody_gets_their_own(start, others) -> None:
    """At most 4 queries at once, a request's all in one call, and each call finds one number of passages."""
    for limits, requests, calls in (
        ((16, 3600, 3600), [("wxyz", 1), ("ab", 2), ("c", 3), ("d", 2), ("ef", 2), ("ghi", 2)], 5),
        ((16, 3600, 3600, 60), [("a", 1), ("b", 1), ("c", 1), ("d", 1)], 1),  # the first one waits for the others
    ):
        service = loaded(start, *limits)
        answers = [asked(service, others, *queries, top_k=top_k) for queries, top_k in requests]
        service.open_gate(calls)
        assert [titles(one.result()) for one in answers] == [
            [[one] * top_k for one in some] for some, top_k in requests
        ]
        assert service.metric("wiki_search_batch_queries_count") == calls


def test_it_is_not_ready_before_its_index_is_loaded(start) -> None:
    service = start(GATED, 8, 60, 60)
    health, refused = service.health(), service.post("early")
    assert (health.status_code, health.json()["status"]) == (503, "loading")
    assert (refused.status_code, "Retry-After" in refused.headers) == (503, True)
    service.process.terminate()
    assert service.end() == (0, "")


def test_sigterm_finishes_what_was_accepted_and_refuses_the_rest(gated, others) -> None:
    accepted = asked(gated, others, "accepted")
    gated.process.send_signal(signal.SIGTERM)
    wait_until(lambda: gated.health().json()["status"] == "stopping")
    late = gated.post("late")
    assert (late.status_code, late.headers["connection"]) == (503, "close")
    assert "stopping" in late.json()["error"]
    gated.open_gate()
    assert titles(accepted.result()) == [["accepted"]]
    assert gated.line() == "closed"
    assert gated.end() == (0, "")


def test_a_second_signal_ends_it_at_once_and_says_what_was_cut(gated, others) -> None:
    cut = asked(gated, others, "cut")
    gated.process.send_signal(signal.SIGTERM)
    wait_until(lambda: gated.health().json()["status"] == "stopping")
    gated.process.send_signal(signal.SIGTERM)
    assert (cut.result().status_code, "stopping" in cut.result().text) == (503, True)
    code, errors = gated.end()
    assert (code, "ended before 1 queries that it had accepted were answered" in errors) == (1, True), errors
    assert "Traceback" not in errors


def test_what_the_grace_does_not_suffice_for_is_cut(start, others) -> None:
    service = loaded(start, 2, 0.1, 60)
    cut = asked(service, others, "cut")
    service.process.send_signal(signal.SIGTERM)
    assert (cut.result().status_code, service.end()[0]) == (503, 1)


SERVE = ("-m", "agent_r1_cli", "wiki", "serve")


def local(corpus: Path, cache: Path) -> Any:
    return open_bm25(read_corpus(str(corpus)), Words(False), str(cache), str(corpus))


def test_it_answers_what_the_searcher_answers_and_says_what_it_searches(start, corpus: Path, tmp_path: Path) -> None:
    service, searcher = start(*SERVE, corpus, "--port", 0, "--name", "search.example"), local(corpus, tmp_path)
    assert httpx2.get(f"{service.url}/health", headers={"host": "search.example"}, timeout=60).status_code == 200
    queries = ["capital of France", "unheard-of", "demons alu", "Rhone Paris"]
    answer = service.post(*queries, top_k=3)
    assert answer.json()["results"] == [
        [{"title": hit.passage.title, "text": hit.passage.text, "score": hit.score} for hit in hits]
        for hits in searcher.search(queries, 3)
    ]
    health = service.health()
    assert (health.status_code, health.json()["status"]) == (200, "ready")
    assert health.json()["facts"] == searcher.facts()
    assert health.json()["index"] == answer.json()["index"]
    assert service.metric('wiki_search_requests_total{code="200"}') == 1
    assert service.metric("wiki_search_batch_queries_sum") == len(queries)
    assert service.metric("wiki_search_request_seconds_count") == 1
    service.process.terminate()
    code, errors = service.end()
    assert (code, errors.splitlines()[0]) == (0, f"loading {corpus}"), "its URL comes once it answers"


@pytest.mark.usefixtures("_tantivy")
def test_an_index_folder_is_served(start, corpus: Path, tmp_path: Path) -> None:
    built = subprocess.run([sys.executable, *SERVE[:3], "build", corpus, tmp_path / "index"], check=False)
    assert built.returncode == 0
    service = start(*SERVE, tmp_path / "index", "--backend", "tantivy", "--port", 0)
    assert service.post("demon").json()["results"][0][0]["title"] == "Alû"
    assert service.health().json()["facts"]["backend"] == "tantivy"


def test_what_cannot_be_served_is_one_sentence(corpus: Path, tmp_path: Path) -> None:
    none = tmp_path / "none"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, code, sentence in (
            ((none, "--port", 0), 1, f"there is neither an index nor a corpus at {none}; give a"),
            ((tmp_path, "--port", 0), 1, "there is no index in"),
            ((corpus, "--backend", "tantivy"), 2, "is no index folder, so --backend would have no effect"),
            (
                (corpus, "--port", port),
                2,
                f"error: the service cannot listen on port {port} of 127.0.0.1 (Address already in use); "
                "give another --port (0: any free one) or --host",
            ),
        ):
            command = [sys.executable, *SERVE, *map(str, words)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            errors = done.stderr.splitlines()
            assert (done.stdout, done.returncode, sentence in errors[-1]) == ("", code, True), errors
            assert [line.startswith("error: ") for line in errors] == [False] * (len(errors) - 1) + [True]
            assert len(errors) <= 2, "beside the address, one sentence"
