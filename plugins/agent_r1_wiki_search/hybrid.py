"""Two searchers as one, by reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009).

A passage scores the sum, over the searchers that found it, of `weight / (k + rank)`, with ranks from 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agent_r1_wiki_search.searcher import Hit, Searcher

if TYPE_CHECKING:
    from agent_r1_core import Passage

K = 10
WEIGHTS = (1.0, 1.0)
_DEPTH = 100
"""Hits of each searcher that are fused, at least."""


class HybridSearcher:
    """Fuses a lexical and a dense searcher."""

    def __init__(
        self, lexical: Searcher, dense: Searcher, k: float = K, weights: tuple[float, float] = WEIGHTS
    ) -> None:
        """Fuse two searchers of one corpus, with their weights."""
        self._searchers, self._k, self._weights = (lexical, dense), k, weights

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """For each query at most `top_k` passages that either found, best first."""
        lists = [searcher.search(queries, max(_DEPTH, top_k)) for searcher in self._searchers]
        return [self._fused(found)[:top_k] for found in zip(*lists, strict=True)]

    def facts(self) -> dict[str, Any]:
        """What both search, and how they are fused."""
        lexical, dense = (searcher.facts() for searcher in self._searchers)
        fusion = {"lexical": lexical["backend"], "rrf_k": self._k, "rrf_weights": list(self._weights)}
        return {**dense, "backend": "hybrid", **fusion}

    def close(self) -> None:
        for searcher in self._searchers:
            searcher.close()

    def _fused(self, found: Sequence[Sequence[Hit]]) -> list[Hit]:
        scores: dict[Passage, float] = {}
        for hits, weight in zip(found, self._weights, strict=True):
            for rank, hit in enumerate(hits, 1):
                scores[hit.passage] = scores.get(hit.passage, 0.0) + weight / (self._k + rank)
        best = sorted(scores.items(), key=lambda pair: -pair[1])  # stable: of equal ones the lexical searcher's first
        return [Hit(passage, score) for passage, score in best]
