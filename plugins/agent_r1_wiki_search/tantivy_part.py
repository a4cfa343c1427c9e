"""BM25 on disk (tantivy): built from a stream in bounded memory, searched through files mapped into memory.

Words are split at what is no letter or digit, lower-cased, without accents; the frequent ones of a query (`of`, `the`)
count only if it has no others. No query language: quotes, colons and operators are text. Passages with equal scores
keep the order of the corpus among those found.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from agent_r1_core import working
from agent_r1_core.opening import check_folder, check_inside, check_links, read_json
from agent_r1_wiki_search.library import frequent_words
from agent_r1_wiki_search.packages import require
from agent_r1_wiki_search.passages import Passages
from agent_r1_wiki_search.searcher import Hit

_COMMIT = 500_000
"""Passages after which what is indexed survives a kill."""
_MEMORY = 400_000_000
"""Bytes of the writer's buffer."""
_LONGEST_WORD = 100
_ANALYZER = "words"
_LOCKS = (".tantivy-meta.lock", ".tantivy-writer.lock")
"""All that tantivy writes where it only reads: it makes those that are missing, and leaves others as they are."""


@dataclass(frozen=True)
class TantivyPart:
    """How to build the lexical part of an index."""

    stemmer: bool = False
    name: str = "tantivy"

    def parameters(self) -> dict[str, Any]:
        """What the part of an index was built with.

        Raises:
            ConfigError: the package tantivy is missing.
        """
        require("tantivy")
        return {"stemmer": self.stemmer, "tantivy": version("tantivy")}

    def check(self, passages: int) -> None:
        """Any number is enough."""

    def build(self, passages: Passages, corpus: str, folder: Path) -> dict[str, Any]:
        """Index the passages; what an interrupted call has indexed is kept if the corpus has the same hash."""
        import tantivy

        state = folder.with_suffix(".json")
        if not state.exists() or read_json(state) != {"corpus": corpus}:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            state.write_text(json.dumps({"corpus": corpus}))
        check_links(folder)
        index = _index(folder, self.stemmer)
        done = index.searcher().num_docs
        writer = index.writer(_MEMORY, 1)
        with working("indexing words", len(passages), done=done, unit="passages") as work:
            for number, passage in enumerate(passages.since(done), done):
                writer.add_document(tantivy.Document(number=number, text=f"{passage.title}\n{passage.text}"))
                if (number + 1) % _COMMIT == 0:
                    writer.commit()
                work.advance()
            writer.commit()
        with working("merging the index of words"):
            writer.wait_merging_threads()
        return self.parameters()


class TantivySearcher:
    """Searches the lexical part of an index."""

    def __init__(self, folder: Path, passages: Passages, parameters: dict[str, Any], facts: dict[str, Any]) -> None:
        """Open it.

        Args:
            folder: of the part.
            passages: the index's.
            parameters: with which it was built.
            facts: about the index.

        Raises:
            ConfigError: the package tantivy is missing.
        """
        require("tantivy")
        self._passages, self._facts = passages, {**facts, "backend": "tantivy"}
        self._plain, self._words = _analyzer(stemmer=False), _analyzer(parameters["stemmer"])
        index = _index(folder, parameters["stemmer"])
        self._schema, self._searcher = index.schema, index.searcher()

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """For each query at most `top_k` passages that share a word with it, best first."""
        return [self._search(query, top_k) for query in queries]

    def facts(self) -> dict[str, Any]:
        """How many passages there are, where they come from, and their hash."""
        return self._facts

    def close(self) -> None:
        """Nothing to do: the files are closed with the object."""

    def _search(self, query: str, top_k: int) -> list[Hit]:
        from tantivy import Occur, Query

        words = self._of_query(query)
        if not words:
            return []
        terms = [(Occur.Should, Query.term_query(self._schema, "text", word, "freq")) for word in words]
        found = self._searcher.search(Query.boolean_query(terms), top_k, count=False).hits
        numbers = self._searcher.fast_field_values("number", [address for _, address in found])
        best = sorted((-score, int(number or 0)) for (score, _), number in zip(found, numbers, strict=True))
        return [Hit(self._passages[number], -score) for score, number in best]

    def _of_query(self, query: str) -> list[str]:
        plain = self._plain.analyze(query)
        telling = [word for word in plain if word not in frequent_words()] or plain
        return self._words.analyze(" ".join(telling))


def _index(folder: Path, stemmer: bool) -> Any:
    import tantivy

    fields = tantivy.SchemaBuilder().add_integer_field("number", fast=True)
    schema = fields.add_text_field("text", tokenizer_name=_ANALYZER, index_option="freq").build()
    check_folder(folder)
    for lock in _LOCKS:
        if not (folder / lock).exists():  # a link to nothing, through which it would be made
            check_inside(folder / lock, folder)
    index = tantivy.Index(schema, path=str(folder))
    index.register_tokenizer(_ANALYZER, _analyzer(stemmer))
    return index


def _analyzer(stemmer: bool) -> Any:
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    builder = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(_LONGEST_WORD))
    builder = builder.filter(Filter.lowercase()).filter(Filter.ascii_fold())
    return (builder.filter(Filter.stemmer("english")) if stemmer else builder).build()
