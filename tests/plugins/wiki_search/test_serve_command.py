"""The command `serve`, as a program."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from agent_r1_wiki_search.bm25 import Words, open_bm25
from agent_r1_wiki_search.corpus import read_corpus

pytestmark = pytest.mark.slow

SERVE = ("-m", "agent_r1_cli", "wiki", "serve")


def local(corpus: Path, cache: Path) -> Any:
    return open_bm25(read_corpus(str(corpus)), Words(False), str(cache), str(corpus))


def test_it_answers_what_the_searcher_answers_and_says_what_it_searches(start, corpus: Path, tmp_path: Path) -> None:
    service, searcher = start(*SERVE, corpus, "--port", 0, "--name", "search.example"), local(corpus, tmp_path)
    assert httpx2.get(f"{service.url}/health", headers={"host": "search.example"}).status_code == 200
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


def failed(*words: Any) -> tuple[int, list[str]]:
    command = [sys.executable, *SERVE, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr.splitlines()


def test_a_port_in_use_is_one_sentence(corpus: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, errors = failed(corpus, "--port", port)
    assert code == 2
    assert errors == [
        f"error: the service cannot listen on port {port} of 127.0.0.1 (Address already in use); "
        "give another --port (0: any free one) or --host"
    ]


def test_what_cannot_be_served_is_one_sentence(corpus: Path, tmp_path: Path) -> None:
    for words, code, sentence in (
        ((tmp_path / "none", "--port", 0), 1, f"there is neither an index nor a corpus at {tmp_path}/none; give a"),
        (
            (tmp_path / "none", "--port", 0, "--backend", "dense"),
            1,
            f"neither an index nor a corpus at {tmp_path}/none;",
        ),
        ((tmp_path, "--port", 0), 1, "there is no index in"),
        ((corpus, "--backend", "tantivy"), 2, "is no index folder, so --backend would have no effect"),
    ):
        result, errors = failed(*words)
        assert (result, sentence in errors[-1]) == (code, True), errors
        assert [line.startswith("error: ") for line in errors] == [False] * (len(errors) - 1) + [True]
        assert len(errors) <= 2, "beside the address, one sentence"
