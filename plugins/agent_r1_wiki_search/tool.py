"""The tool `wiki_search`: passages that answer a query, by BM25."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from agent_r1_core import (
    ComponentConfig,
    LocalPath,
    Passage,
    Tool,
    ToolArguments,
    ToolContext,
    ToolError,
    ToolResources,
)
from agent_r1_wiki_search.bm25 import Words, open_bm25
from agent_r1_wiki_search.corpus import read_corpus, source_corpus
from agent_r1_wiki_search.searcher import Searcher

NOTHING = "No passage found."
_MAX_QUERIES = 8
_LONGEST_QUERY = 2000
"""Characters; every word of a query costs time, and longer ones are no questions."""


class WikiSearch(Tool):
    """Searches an encyclopedia and returns the passages that match best."""

    class Config(ComponentConfig):
        top_k: int = Field(1, ge=1, le=100)
        """Passages per query."""
        corpus: LocalPath | None = None
        """A .jsonl, .json or .parquet file of passages with `title` and `text`; null: the task source's corpus."""
        source: str = "auto"
        """The task source whose corpus is searched: `train`, `eval`, the name of one of several evaluation sets, or
        `auto` for that of the current tasks."""
        stemmer: bool = False
        """Match English words by their stems; this conflates some names too."""
        max_characters: int = Field(1000, ge=1)
        """Most characters of a passage; a longer one is cut."""

    class Arguments(ToolArguments):
        query: str | list[str] = Field(description="What to look for; a list asks for several things at once")

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._searcher: Searcher | None = None

    @classmethod
    def idle_options(cls, config: Config) -> dict[str, str]:
        """With a file as corpus, `source` has no effect."""
        return {} if config.corpus is None else {"source": "corpus names a file"}

    def open(self, resources: ToolResources) -> None:
        """Read and index the corpus, or take its index from the cache.

        Raises:
            ConfigError: there is no corpus.
            TaskError: the corpus file is missing or malformed.
        """
        config = self.config
        if config.corpus:
            passages, origin = read_corpus(config.corpus), config.corpus
        else:
            sources = resources.own_corpora if config.source == "auto" else [config.source]
            passages = source_corpus(resources, sources)
            origin = ", ".join(f"tasks.{name}" for name in sources)
        self._searcher = open_bm25(passages, Words(config.stemmer), resources.cache_dir, origin)

    def other_corpora(self) -> tuple[str, ...]:
        """The source that the option names."""
        return () if self.config.corpus or self.config.source == "auto" else (self.config.source,)

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
            ToolError: a query is empty or too long, or there are too many.
        """
        queries = arguments.query
        if isinstance(queries, str):
            return self._results(queries)
        if not 1 <= len(queries) <= _MAX_QUERIES:
            raise ToolError(f"{len(queries)} queries were given; give 1 to {_MAX_QUERIES}")
        return "\n\n".join(f'Results for "{query}":\n{self._results(query)}' for query in queries)

    def search(self, query: str, top_k: int | None = None) -> list[Passage]:
        """At most `top_k` uncut passages, best first; None: as many as the option says.

        Raises:
            ToolError: the query is empty, or the tool is not open.
        """
        if self._searcher is None:
            raise ToolError("wiki_search is not open; call open(resources) first")
        if not query.strip():
            raise ToolError("the query is empty; say what to look for")
        (hits,) = self._searcher.search([query], self.config.top_k if top_k is None else top_k)
        return [hit.passage for hit in hits]

    def _results(self, query: str) -> str:
        if len(query) > _LONGEST_QUERY:
            raise ToolError(f"a query has {len(query)} characters; give at most {_LONGEST_QUERY}")
        return "\n\n".join(f"{passage.title}\n{self._cut(passage.text)}" for passage in self.search(query)) or NOTHING

    def _cut(self, text: str) -> str:
        limit = self.config.max_characters
        return text if len(text) <= limit else text[:limit].rstrip() + " ..."
