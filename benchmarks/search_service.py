"""How many searches a second does the service of wiki_search answer, and what does batching bring?

    python benchmarks/search_service.py --corpus CORPUS

Clients each send one query after the other over a connection of their own (closed loop) to
`agent-r1 wiki serve`, which runs in a process beside them. The last row asks through the tool's
backend `remote` from as many threads. Queries are the titles and first words of the corpus's passages. Without a
corpus, the passages are generated.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import report
from agent_r1_wiki_search.corpus import read_corpus
from agent_r1_wiki_search.remote import RemoteSearcher

from agent_r1_core import Passage

SETTINGS = {
    "no batching": ("--batch-size", "1"),
    "batches, no wait": ("--batch-wait", "0"),
    "batches, 2 ms wait (default)": (),
    "batches, 10 ms wait": ("--batch-wait", "0.01"),
}


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "search_service")
    options.add_argument("--corpus", type=Path, help="passages: a .jsonl, .json or .parquet file")
    options.add_argument("--index", type=Path, help="what is served: an index folder of the corpus; else BM25")
    options.add_argument("--clients", type=int, default=64, help="at once")
    options.add_argument("--requests", type=int, default=100, help="of each client")
    options.add_argument("--repeats", type=int, default=3, help="alternating runs of each row; the median is shown")
    options.add_argument("--top-k", type=int, default=5, help="passages per query")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.clients, chosen.requests, chosen.repeats = 8, 5, 1
    return chosen


def generated(folder: Path) -> Path:
    """A corpus of random words."""
    generator = random.Random(0)
    words = ["".join(generator.choices("aeioubdgklmnprst", k=generator.randint(3, 8))) for _ in range(20_000)]
    path = folder / "corpus.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(6000):
            text = " ".join(generator.choices(words, k=60))
            file.write(json.dumps({"title": f"{text.split()[0]} {number}", "text": text}) + "\n")
    return path


@contextlib.contextmanager
def service(index: Path, *options: str) -> Iterator[str]:
    """The URL of a service."""
    command = [sys.executable, "-m", "agent_r1_cli", "wiki", "serve", str(index), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **report.CALM}, text=True)
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        if not url:
            raise SystemExit(f"{' '.join(command)} did not start")
        yield url
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


async def client(url: str, bodies: Sequence[bytes]) -> list[float]:
    """The seconds of each request."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    seconds = []
    for body in bodies:
        head = f"POST /search HTTP/1.1\r\nhost: {address.netloc}\r\ncontent-type: application/json\r\n"
        begun = time.perf_counter()
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)
        if not answer.startswith(b"HTTP/1.1 200") or length is None:
            raise SystemExit(f"the service answered {answer!r}")
        await reader.readexactly(int(length[1]))
        seconds.append(time.perf_counter() - begun)
    writer.close()
    await writer.wait_closed()
    return seconds


async def over_http(url: str, shares: Sequence[Sequence[str]], top_k: int) -> list[float]:
    """The seconds of each request of all clients."""
    bodies = [[json.dumps({"queries": [query], "top_k": top_k}).encode() for query in share] for share in shares]
    return [each for seconds in await asyncio.gather(*(client(url, body) for body in bodies)) for each in seconds]


def over_remote(url: str, shares: Sequence[Sequence[str]], top_k: int) -> list[float]:
    """The same through the backend `remote`, from a thread per client."""
    searcher = RemoteSearcher(url)

    def ask(share: Sequence[str]) -> list[float]:
        seconds = []
        for query in share:
            begun = time.perf_counter()
            searcher.search([query], top_k)
            seconds.append(time.perf_counter() - begun)
        return seconds

    try:
        with ThreadPoolExecutor(len(shares)) as threads:
            return [each for seconds in threads.map(ask, shares) for each in seconds]
    finally:
        searcher.close()


def batch_size(url: str) -> float:
    """The mean number of queries of a batch."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        text = answer.read().decode()
    total, count = (re.search(rf"^wiki_search_batch_queries_{part} (\S+)$", text, re.M) for part in ("sum", "count"))
    return float(total[1]) / float(count[1]) if total and count else 0.0


def measure(label: str, url: str, ask: Callable[[str], list[float]]) -> dict[str, Any]:
    """One run."""
    begun = time.perf_counter()
    seconds = ask(url)
    wall = time.perf_counter() - begun
    cuts = statistics.quantiles(seconds, n=100)
    return {
        "service": label,
        "requests/s": len(seconds) / wall,
        "p50 ms": 1000 * cuts[49],
        "p99 ms": 1000 * cuts[98],
        "queries per batch": batch_size(url),
    }


def queries(passages: Sequence[Passage], clients: int, requests: int) -> list[list[str]]:
    """What each client asks."""
    generator = random.Random(0)

    def query() -> str:
        passage = generator.choice(passages)
        return " ".join([passage.title, *passage.text.split()[:6]])

    return [[query() for _ in range(requests)] for _ in range(clients)]


def medians(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The median of every figure."""
    return {
        name: value if isinstance(value, str) else statistics.median(run[name] for run in runs)
        for name, value in runs[0].items()
    }


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("AGENT_R1_CACHE", folder)
        corpus = options.corpus or generated(Path(folder))
        shares = queries(read_corpus(str(corpus)), options.clients, options.requests)
        runs: dict[str, list[dict[str, Any]]] = {}
        for _ in range(options.repeats):
            for label, settings in SETTINGS.items():
                with service(options.index or corpus, *settings) as url:
                    http = lambda url: asyncio.run(over_http(url, shares, options.top_k))
                    http(url)
                    runs.setdefault(label, []).append(measure(label, url, http))
            with service(options.index or corpus) as url:
                label, remote = "through backend remote", lambda url: over_remote(url, shares, options.top_k)
                runs.setdefault(label, []).append(measure(label, url, remote))
    rows = [medians(each) for each in runs.values()]
    report.show(f"{options.clients} clients, one query a request, {options.top_k} passages", rows)
    report.save(options.out, options, {"search_service": rows})


if __name__ == "__main__":
    main()
