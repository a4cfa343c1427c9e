"""How many searches a second does the service of wiki_search answer, and what does batching bring?

    python benchmarks/search_service.py --corpus CORPUS

Clients each send one query after the other over a connection of their own (closed loop) to
`agent-r1 wiki serve`, which runs in a process beside them. The last row asks through the tool's
backend `remote` from as many threads. Queries are the titles and first words of the corpus's passages. Without a
corpus, the passages are generated.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import report
from agent_r1_wiki_search.corpus import read_corpus
from agent_r1_wiki_search.remote import RemoteSearcher

SETTINGS = {
    "no batching": ("--batch-size", "1"),
    "batches, no wait": ("--batch-wait", "0"),
    "batches, 2 ms wait (default)": (),
    "batches, 10 ms wait": ("--batch-wait", "0.01"),
    "through backend remote": (),
}
Shares = Sequence[Sequence[str]]
"""What each client asks."""


def generated(folder: Path) -> Path:
    generator = random.Random(0)
    words = ["".join(generator.choices("aeioubdgklmnprst", k=generator.randint(3, 8))) for _ in range(20_000)]
    path = folder / "corpus.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(6000):
            text = " ".join(generator.choices(words, k=60))
            file.write(json.dumps({"title": f"{text.split()[0]} {number}", "text": text}) + "\n")
    return path


async def over_http(url: str, shares: Shares, top_k: int) -> list[float]:
    """The seconds of each request of all clients."""
    address = urlsplit(url)

    async def client(queries: Sequence[str]) -> list[float]:
        bodies = [json.dumps({"queries": [query], "top_k": top_k}).encode() for query in queries]
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

    return list(chain.from_iterable(await asyncio.gather(*map(client, shares))))


def over_remote(url: str, shares: Shares, top_k: int) -> list[float]:
    """The same through the backend `remote`, from a thread per client."""

    def ask(queries: Sequence[str]) -> list[float]:
        seconds = []
        for query in queries:
            begun = time.perf_counter()
            searcher.search([query], top_k)
            seconds.append(time.perf_counter() - begun)
        return seconds

    with closing(RemoteSearcher(url)) as searcher, ThreadPoolExecutor(len(shares)) as threads:
        return list(chain.from_iterable(threads.map(ask, shares)))


def batch_size(url: str) -> float:
    """The mean number of queries of a batch."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        text = answer.read().decode()
    total, count = (re.search(rf"^wiki_search_batch_queries_{part} (\S+)$", text, re.M) for part in ("sum", "count"))
    return float(total[1]) / float(count[1]) if total and count else 0.0


def measure(label: str, url: str, shares: Shares, top_k: int) -> dict[str, float]:
    """One run, after one that warms up the service."""
    for _ in range(2):
        begun = time.perf_counter()
        remote = label == "through backend remote"
        seconds = over_remote(url, shares, top_k) if remote else asyncio.run(over_http(url, shares, top_k))
    wall, cuts = time.perf_counter() - begun, statistics.quantiles(seconds, n=100)
    figures = {"requests/s": len(seconds) / wall, "p50 ms": 1000 * cuts[49], "p99 ms": 1000 * cuts[98]}
    return figures | {"queries per batch": batch_size(url)}


def main() -> None:
    parser = report.parser(__doc__, "search_service")
    parser.add_argument("--corpus", type=Path, help="passages: a .jsonl, .json or .parquet file")
    parser.add_argument("--index", type=Path, help="what is served: an index folder of the corpus; else BM25")
    parser.add_argument("--clients", type=int, default=64, help="at once")
    parser.add_argument("--requests", type=int, default=100, help="of each client")
    parser.add_argument("--repeats", type=int, default=3, help="alternating runs of each row; the median is shown")
    parser.add_argument("--top-k", type=int, default=5, help="passages per query")
    options = report.chosen(parser, clients=8, requests=5, repeats=1)
    runs: dict[str, list[dict[str, float]]] = {label: [] for label in SETTINGS}
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("AGENT_R1_CACHE", folder)
        corpus = options.corpus or generated(Path(folder))
        drawn = random.Random(0).choices(read_corpus(str(corpus)), k=options.clients * options.requests)
        asked = [" ".join([one.title, *one.text.split()[:6]]) for one in drawn]
        shares = [asked[client :: options.clients] for client in range(options.clients)]
        for _ in range(options.repeats):
            for label, settings in SETTINGS.items():
                served = options.index or corpus
                with report.serving("wiki", "serve", served, "--port", "0", *settings) as (_, url):
                    runs[label].append(measure(label, url, shares, options.top_k))
    rows: list[dict[str, Any]] = [
        {"service": label} | {name: statistics.median(run[name] for run in own) for name in own[0]}
        for label, own in runs.items()
    ]
    report.show(f"{options.clients} clients, one query a request, {options.top_k} passages", rows)
    report.save(options.out, options, {"search_service": rows})


if __name__ == "__main__":
    main()
