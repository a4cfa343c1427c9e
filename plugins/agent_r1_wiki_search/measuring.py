"""Measures an index: time per query, and how many passages are found by their own titles."""

from __future__ import annotations

import resource
import statistics
import time
from pathlib import Path

from agent_r1_core import working
from agent_r1_wiki_search.building import PASSAGES
from agent_r1_wiki_search.passages import Passages
from agent_r1_wiki_search.searcher import Searcher

_BATCH = 64


def measure(searcher: Searcher, folder: Path, count: int, top_k: int) -> dict[str, str]:
    """Figures in words. The first queries warm the index up and are not counted."""
    passages = Passages(folder / PASSAGES)
    count = min(count, len(passages))
    queries = [passages[number * len(passages) // count].title for number in range(count)]
    for query in queries[:_BATCH]:
        searcher.search([query], top_k)
    times, found = [], 0
    with working("asking one by one", count, unit="queries") as work:
        for query in queries:
            begun = time.perf_counter()
            (hits,) = searcher.search([query], top_k)
            times.append(1000 * (time.perf_counter() - begun))
            found += any(hit.passage.title == query for hit in hits)
            work.advance()
    with working(f"asking {_BATCH} at once"):
        begun = time.perf_counter()
        for start in range(0, count, _BATCH):
            searcher.search(queries[start : start + _BATCH], top_k)
        together = time.perf_counter() - begun
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "passages": f"{len(passages):,}",
        "queries": f"{count:,}",
        "one query, median": f"{statistics.median(times):.2f} ms",
        "one query, 95 % are faster than": f"{sorted(times)[int(0.95 * (count - 1))]:.2f} ms",
        f"{_BATCH} at once, a query": f"{1000 * together / count:.2f} ms",
        f"own passage among the first {top_k}": f"{found / count:.1%}",
        "most memory of this process": f"{memory / 1e6:,.2f} GB",
    }
