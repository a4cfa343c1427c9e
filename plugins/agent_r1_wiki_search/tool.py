"""The tool `wiki_search`: passages that answer a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from agent_r1_core import (
    ComponentConfig,
    ConfigError,
    Metric,
    Passage,
    Tool,
    ToolArguments,
    ToolContext,
    ToolError,
    ToolResources,
)
from agent_r1_core.opening import LINES, check_regular
from agent_r1_wiki_search.backends import open_searcher
from agent_r1_wiki_search.config import WikiSearchConfig
from agent_r1_wiki_search.connection import Call
from agent_r1_wiki_search.corpus import stream_corpus
from agent_r1_wiki_search.folder import backend_of
from agent_r1_wiki_search.manifest import Manifest
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

    def check_data(self) -> None:
        """Read the first passage of `corpus`, of which a `.json` file is read whole, and what `index` was built for.

        Raises:
            ConfigError: the index was built for another backend.
            TaskError: the corpus is malformed there, or empty, or the index is damaged.
        """
        if self.config.corpus is not None:
            next(stream_corpus(self.config.corpus))
        if self.config.index is not None:
            folder = Path(self.config.index)
            backend_of(folder, Manifest.read(folder), self.config.backend)

    def other_corpora(self) -> tuple[str, ...]:
        """The source that the option names."""
        return () if self.config.source == "auto" else (self.config.source,)

    def describe(self) -> dict[str, Any] | None:
        """What it searches: how many passages, from where, and how."""
        return None if self._searcher is None else self._searcher.facts()

    def close(self) -> None:
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


_MARK = " ..."
"""Says that a text was cut; not counted."""


def make_excerpt(config: WikiSearchConfig, tokenizer: str | None) -> Callable[[Passage], str]:
    """The function that shortens passages.

    Args:
        config: the tool's options.
        tokenizer: the folder of the policy's tokenizer.

    Raises:
        ConfigError: tokens are to be counted, and there is no tokenizer to count them.
    """
    if config.show == "titles":
        return lambda passage: passage.title
    cut = partial(_characters, most=config.max_characters)
    if config.max_tokens is not None:
        cut = partial(_tokens, most=config.max_tokens, tokenizer=_load(tokenizer))
    if config.show == "texts":
        return lambda passage: cut(passage.text)
    return lambda passage: f"{passage.title}\n{cut(passage.text)}"


def _characters(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most].rstrip() + _MARK


def _tokens(text: str, most: int, tokenizer: Any) -> str:
    """The text cut where the limit's last token ends; what looks like a control token counts as text, as in a chat."""
    shown = text
    while len(encoding := tokenizer.encode(shown, add_special_tokens=False)) > most:
        end = encoding.offsets[most - 1][1]
        shown = shown[: min(end, len(shown) - 1)].rstrip()  # the end of a cut text may be split into more tokens
    return text if shown == text else shown + _MARK


def _load(folder: str | None) -> Any:
    from tokenizers import Tokenizer

    file = None if folder is None else Path(folder) / "tokenizer.json"
    if file is None or not file.is_file():
        where = "no policy is at hand" if folder is None else f"{folder} has no tokenizer.json"
        raise ConfigError(f"max_tokens counts with the policy's tokenizer, but {where}; set max_characters instead")
    check_regular(file, LINES)
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.encode_special_tokens = True
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
