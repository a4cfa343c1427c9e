"""AnswerCache: the answers to past queries, as many as a number of passages allows; those used last stay."""

from __future__ import annotations

import threading
from collections import OrderedDict

from agent_r1_wiki_search.searcher import Hit


class AnswerCache:
    """Safe to use from several threads."""

    def __init__(self, passages: int) -> None:
        """`passages` bounds what all answers hold together; an empty answer counts as one. 0: keep nothing."""
        self._most = passages
        self._held = 0
        self._lock = threading.Lock()
        self._answers: OrderedDict[tuple[str, int], list[Hit]] = OrderedDict()

    def get(self, query: str, top_k: int) -> list[Hit] | None:
        """The answer to this query; None: it is not here."""
        with self._lock:
            answer = self._answers.get((query, top_k))
            if answer is not None:
                self._answers.move_to_end((query, top_k))
            return answer

    def put(self, query: str, top_k: int, answer: list[Hit]) -> None:
        """Keep an answer, and drop what was not used for longest."""
        if _size(answer) > self._most:
            return
        with self._lock:
            replaced = self._answers.pop((query, top_k), None)
            self._held += _size(answer) - (0 if replaced is None else _size(replaced))
            self._answers[query, top_k] = answer
            while self._held > self._most:
                _, dropped = self._answers.popitem(last=False)
                self._held -= _size(dropped)


def _size(answer: list[Hit]) -> int:
    return max(1, len(answer))
