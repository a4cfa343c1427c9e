"""The tool `wiki_search`: passages that answer a query, by BM25 or from a service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from agent_r1_core import (
    ComponentConfig,
    LocalPath,
    Metric,
    Passage,
    Tool,
    ToolArguments,
    ToolContext,
    ToolError,
    ToolResources,
)
from agent_r1_wiki_search.bm25 import Words, open_bm25
from agent_r1_wiki_search.connection import Call
from agent_r1_wiki_search.corpus import read_corpus, source_corpus
from agent_r1_wiki_search.remote import RemoteSearcher
from agent_r1_wiki_search.searcher import LONGEST_QUERY, MOST_PASSAGES, Hit, Searcher

NOTHING = "No passage found."
_MAX_QUERIES = 8


class WikiSearch(Tool):
    """Searches an encyclopedia and returns the passages that match best."""

    metrics = (
        Metric("away", "calls that the search service did not answer", unit="share", better="lower"),
        Metric("repeats", "requests of a call that were sent again", better="lower"),
    )

    class Config(ComponentConfig):
        backend: Literal["bm25", "remote"] = "bm25"
        """How it searches: `bm25` in this process; `remote` through the service at `url`."""
        top_k: int = Field(1, ge=1, le=MOST_PASSAGES)
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
        url: str | None = Field(None, pattern=r"^https?://[^/?#]+/?$")
        """The service that `python -m agent_r1_wiki_search serve` runs, as `http://host:port`."""
        serves: str | None = None
        """The index that the service must serve, by what its /health calls `index`; null: whichever it serves when the
        tool opens. What it answers for another one is withheld."""
        retries: int = Field(4, ge=0, le=10)
        """Most repetitions of a request to the service, within the call's time-out."""
        cache: int = Field(50_000, ge=0)
        """Passages of the service's answers to keep in memory; 0: none."""

        @model_validator(mode="after")
        def _has_url(self) -> Self:
            if self.backend == "remote" and self.url is None:
                raise ValueError("backend: remote needs url: http://host:port of a service; add it")
            return self

    class Arguments(ToolArguments):
        query: str | list[str] = Field(description="What to look for; a list asks for several things at once")

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._searcher: Searcher | None = None

    @classmethod
    def idle_options(cls, config: Config) -> dict[str, str]:
        """A service has its own corpus, and only `remote` uses one; with a file as corpus, `source` has no effect."""
        if config.backend == "remote":
            return dict.fromkeys(("corpus", "source", "stemmer"), "backend is remote")
        idle = dict.fromkeys(("url", "serves", "retries", "cache"), f"backend is {config.backend}")
        return idle if config.corpus is None else idle | {"source": "corpus names a file"}

    def open(self, resources: ToolResources) -> None:
        """Read and index the corpus, or take its index from the cache; or connect to the service.

        Raises:
            ConfigError: there is no corpus.
            TaskError: the corpus file is missing or malformed.
            ToolError: the service does not answer, or serves another index.
        """
        config = self.config
        if config.backend == "remote":
            self._searcher = RemoteSearcher(
                config.url, retries=config.retries, cache=config.cache, serves=config.serves
            )
            return
        if config.corpus:
            passages, origin = read_corpus(config.corpus), config.corpus
        else:
            sources = resources.own_corpora if config.source == "auto" else [config.source]
            passages = source_corpus(resources, sources)
            origin = ", ".join(f"tasks.{name}" for name in sources)
        self._searcher = open_bm25(passages, Words(config.stemmer), resources.cache_dir, origin)

    def other_corpora(self) -> tuple[str, ...]:
        """The source that the option names."""
        config = self.config
        named = config.backend != "remote" and not config.corpus and config.source != "auto"
        return (config.source,) if named else ()

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
        return "\n\n".join(f"{hit.passage.title}\n{self._cut(hit.passage.text)}" for hit in hits) or NOTHING

    def _cut(self, text: str) -> str:
        limit = self.config.max_characters
        return text if len(text) <= limit else text[:limit].rstrip() + " ..."
