"""What every backend of `wiki_search` is: something that finds passages for queries and says what it searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from agent_r1_core import Passage

LONGEST_QUERY = 2000
"""Characters; every word of a query costs time, and longer ones are no questions."""
MOST_PASSAGES = 100
"""For one query."""


@dataclass(frozen=True)
class Hit:
    """A passage that was found."""

    passage: Passage
    score: float
    """Higher is better; comparable within one backend and query only."""


class Searcher(Protocol):
    """Finds passages; safe to use from several threads."""

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """At most `top_k` hits for each query, best first; none where nothing matches."""
        ...

    def facts(self) -> dict[str, Any]:
        """What is searched and how, for reports, JSON-able: `passages` (their number), `corpus`, `backend` and more."""
        ...

    def close(self) -> None:
        """Release files and memory."""
        ...
