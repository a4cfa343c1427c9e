"""RemoteSearcher: searches through the service that `agent-r1 wiki serve` runs.

A search may be repeated, so one that fails on the way is, within the call's deadline. After a call that found the
service away, others try once, until one is answered. What another index than that of the start answers is withheld.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from agent_r1_core import Passage, ToolError
from agent_r1_wiki_search.connection import LONGEST, Call, Connection, NoAnswer, Reply
from agent_r1_wiki_search.searcher import Hit


class AnswerCache:
    """The answers to past queries; those used last stay. Safe to use from several threads."""

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


LOADING_SECONDS = 600.0
"""For a service that is still loading its index when the tool opens."""
_POLL_SECONDS = 0.5
_LONGEST_PASSAGE = 1 << 20
"""Bytes."""
_LONGEST_ANSWER = 1 << 26
"""Bytes."""

_LOG = logging.getLogger(__name__)


class Unavailable(ToolError):
    """The service is away, or answers for another index."""


class RemoteSearcher:
    """Searches through a service; safe to use from several threads."""

    def __init__(self, url: str, *, retries: int = 4, cache: int = 0, serves: str | None = None) -> None:
        """Connect to the service and learn what it searches.

        Args:
            url: of the service.
            retries: most repetitions of a request.
            cache: passages of past answers to keep.
            serves: identity of the index that it must serve; None: whichever it serves now.

        Raises:
            ToolError: it is away, is no search service, or serves another index.
        """
        self.url = url.rstrip("/")
        self._retries = retries
        self._cache = AnswerCache(cache)
        self._away = False
        self._other = ""
        """The last other index whose answer was withheld."""
        try:
            self._connection = Connection(self.url)
        except ValueError as error:
            raise ToolError(f"{url} is no URL ({error}); correct the option url") from None
        try:
            self.index, self._facts = self._learn(serves)
        except BaseException:
            self._connection.close()
            raise

    def search(self, queries: Sequence[str], top_k: int, call: Call | None = None) -> list[list[Hit]]:
        """At most `top_k` hits for each query, best first, from the cache or from the service.

        Args:
            queries: what to look for.
            top_k: hits per query.
            call: its deadline; what it took is written there.

        Raises:
            Unavailable: the service does not answer in time, or answers for another index.
            ToolError: it refuses the queries.
        """
        call = call or Call()
        answers = {query: self._cache.get(query, top_k) for query in queries}
        missing = [query for query, answer in answers.items() if answer is None]
        if missing:
            try:
                found = self._ask(missing, top_k, call)
            except Unavailable:
                call.away = True
                raise
            for query, hits in zip(missing, found, strict=True):
                answers[query] = hits
                self._cache.put(query, top_k, hits)
        return [list(answers[query] or ()) for query in queries]

    def facts(self) -> dict[str, Any]:
        """What the service said of its index at the start, under `served` its backend, and where it is."""
        own = {"backend": "remote", "served": self._facts.get("backend"), "url": self.url, "index": self.index}
        return self._facts | own

    def close(self) -> None:
        """Close the connections; calls that wait for a repetition give up."""
        self._connection.close()

    def _learn(self, serves: str | None) -> tuple[str, dict[str, Any]]:
        """The identity and the facts of the index that is served, once it is loaded.

        Raises:
            ToolError: there is no such service, it serves another index than this, or loads for too long.
        """
        deadline = time.monotonic() + LOADING_SECONDS
        while True:
            try:
                health = self._connection.request("GET", "/health", None, Call(), self._retries, repeatable=(502, 504))
            except NoAnswer as error:
                raise ToolError(
                    f"the search service at {self.url} does not answer ({error}); start it with "
                    "`agent-r1 wiki serve`, or correct the option url"
                ) from None
            if health.status == 403:
                raise ToolError(f"the search service at {self.url} refuses: {health.error}")
            status, served, facts = health.get("status"), health.get("index"), health.get("facts")
            if status not in ("loading", "ready", "stopping") or not isinstance(facts, dict):
                raise ToolError(f"what answers at {self.url} is no search service; correct the option url")
            if status == "ready":
                break
            if status == "stopping" or time.monotonic() > deadline:
                raise ToolError(f"the search service at {self.url} is {status}; try again when its /health says ready")
            self._connection.wait(_POLL_SECONDS)
        if serves not in (None, served):
            raise ToolError(
                f"the search service at {self.url} serves the index {served} ({_summary(facts)}) and not {serves}; "
                "serve that one, or change the option serves"
            )
        return str(served), facts

    def _ask(self, queries: Sequence[str], top_k: int, call: Call) -> list[list[Hit]]:
        request = {"queries": [query.encode("utf-8", "replace").decode() for query in queries], "top_k": top_k}
        try:
            retries = 0 if self._away else self._retries
            longest = min(LONGEST + len(queries) * top_k * _LONGEST_PASSAGE, _LONGEST_ANSWER)
            reply = self._connection.request("POST", "/search", request, call, retries, longest=longest)
        except NoAnswer as error:
            self._missed(str(error))
            raise Unavailable("the search service does not answer; go on without it, or try again later") from None
        self._answered()
        if reply.status != 200:
            raise ToolError(f"the search service refused the search: {reply.error}")
        hits, index = _hits(reply), reply.get("index")
        if len(hits) != len(queries) or not isinstance(index, str):
            raise Unavailable("the search service gave an answer that does not fit the question; go on without it")
        if index != self.index:
            self._withhold(index)
            raise Unavailable("the search service searches another corpus than at the start; go on without it")
        return hits

    def _missed(self, why: str) -> None:
        if not self._away:
            self._away = True
            _LOG.warning("the search service at %s does not answer (%s): its calls get an error", self.url, why)

    def _answered(self) -> None:
        if self._away:
            self._away = False
            _LOG.warning("the search service at %s answers again", self.url)

    def _withhold(self, index: str) -> None:
        if self._other != index:
            self._other = index
            _LOG.warning(
                "the search service at %s served the index %s (%s) at the start and now serves another one, %s: calls "
                "get an error until it serves the first one again",
                *(self.url, self.index, _summary(self._facts), index),
            )


def _hits(reply: Reply) -> list[list[Hit]]:
    """The hits in an answer; none if it is malformed."""
    try:
        return [
            [Hit(Passage(str(hit["title"]), str(hit["text"])), float(hit["score"])) for hit in found]
            for found in reply.get("results")
        ]
    except (KeyError, TypeError, ValueError):
        return []


def _summary(facts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {facts[name]}" for name in ("backend", "passages", "corpus", "hash") if name in facts)
