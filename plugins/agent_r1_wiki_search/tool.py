"""The tool `wiki_search`: passages that answer a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import Field

from agent_r1_core import (
    ComponentConfig,
    Metric,
    Passage,
    Tool,
    ToolArguments,
    ToolContext,
    ToolError,
    ToolResources,
)
from agent_r1_wiki_search.backends import open_searcher
from agent_r1_wiki_search.config import WikiSearchConfig
from agent_r1_wiki_search.connection import Call
from agent_r1_wiki_search.excerpt import make_excerpt
from agent_r1_wiki_search.packages import missing
from agent_r1_wiki_search.remote import RemoteSearcher
from agent_r1_wiki_search.searcher import LONGEST_QUERY, Hit, Searcher

NOTHING = "No passage found."
_MAX_QUERIES = 8


class WikiSearch(Tool):
    """Searches an encyclopedia and returns the passages that match best."""

    metrics = (
        Metric("away", "calls that the search service did not answer", unit="share", better="lower"),
        Metric("repeats", "requests of a call that were sent again", better="lower"),
    )

    Config = WikiSearchConfig

    class Arguments(ToolArguments):
        query: str | list[str] = Field(description="What to look for; a list asks for several things at once")

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._searcher: Searcher | None = None
        self._excerpt: Callable[[Passage], str]

    @classmethod
    def idle_options(cls, config: WikiSearchConfig) -> dict[str, str]:
        """What the backend, the index and the other options leave without effect."""
        return config.idle()

    @classmethod
    def unavailable(cls, config: WikiSearchConfig) -> str | None:
        """A sentence if a package that the backend needs is missing."""
        return missing(*config.modules)

    def open(self, resources: ToolResources) -> None:
        """Open the index; build the corpus's own, or take it from the cache; or connect to the service.

        Raises:
            ConfigError: there is no corpus, or the index was built for something else.
            ModelError: the encoder cannot be loaded.
            TaskError: the corpus is missing or malformed, or the index is damaged.
            ToolError: the service does not answer, or serves another index.
        """
        self._excerpt = make_excerpt(self.config, resources.tokenizer)
        self._searcher = open_searcher(self.config, resources)

    def other_corpora(self) -> tuple[str, ...]:
        """The source that the option names."""
        return () if self.config.source == "auto" else (self.config.source,)

    def describe(self) -> dict[str, Any] | None:
        """What it searches: how many passages, from where, and how."""
        return None if self._searcher is None else self._searcher.facts()

    def close(self) -> None:
        """Release the index."""
        if self._searcher is not None:
            self._searcher.close()
            self._searcher = None

    def run(self, arguments: Any, context: ToolContext) -> str:
        """Passages as `Title`, newline, `Text`, a blank line between them; several queries get a heading each.

        Raises:
            ToolError: a query is empty or too long, there are too many, or the service does not answer.
        """
        queries = [arguments.query] if isinstance(arguments.query, str) else arguments.query
        if not 1 <= len(queries) <= _MAX_QUERIES:
            raise ToolError(f"{len(queries)} queries were given; give 1 to {_MAX_QUERIES}")
        if (longest := max(map(len, queries))) > LONGEST_QUERY:
            raise ToolError(f"a query has {longest} characters; give at most {LONGEST_QUERY}")
        texts = [self._text(hits) for hits in self._find(queries, self.config.top_k, context)]
        if isinstance(arguments.query, str):
            return texts[0]
        return "\n\n".join(f'Results for "{query}":\n{text}' for query, text in zip(queries, texts, strict=True))

    def search(self, query: str, top_k: int | None = None) -> list[Passage]:
        """At most `top_k` uncut passages, best first; None: as many as the option says.

        Raises:
            ToolError: the query is empty, the tool is not open, or the service does not answer.
        """
        (hits,) = self._find([query], self.config.top_k if top_k is None else top_k, None)
        return [hit.passage for hit in hits]

    def _find(self, queries: Sequence[str], top_k: int, context: ToolContext | None) -> list[list[Hit]]:
        if self._searcher is None:
            raise ToolError("wiki_search is not open; call open(resources) first")
        for query in queries:
            if not query.strip():
                raise ToolError("the query is empty; say what to look for")
        if context is None or not isinstance(self._searcher, RemoteSearcher):
            return self._searcher.search(queries, top_k)
        call = Call(context.deadline)
        try:
            return self._searcher.search(queries, top_k, call)
        finally:
            context.metrics |= {"away": float(call.away), "repeats": float(call.repeats)}

    def _text(self, hits: Sequence[Hit]) -> str:
        return "\n\n".join(self._excerpt(hit.passage) for hit in hits) or NOTHING
