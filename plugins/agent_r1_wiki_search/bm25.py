"""A BM25 index (bm25s, Lucene's variant) over passages, cached on disk.

Ranking is deterministic: passages with equal scores keep the order of the corpus. Accents and letter case make no
difference. The cache is keyed by the passages, the options and the version of bm25s. A damaged index is built again; if
the folder cannot be written, every run builds the index anew.
"""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core import Work, working
from agent_r1_core.opening import check_folder, open_to_read, read_json
from agent_r1_wiki_search.corpus import corpus_hash
from agent_r1_wiki_search.library import bm25s, frequent_words
from agent_r1_wiki_search.searcher import Hit

if TYPE_CHECKING:
    from agent_r1_core import Passage

logger = logging.getLogger(__name__)
_WORD = re.compile(r"\w+")
_MANIFEST = "manifest.json"


class Words:
    """Splits text into the words to index; safe to use from several threads."""

    def __init__(self, stemmer: bool) -> None:
        self.key = f"stemmer={stemmer}"
        self._lock = threading.Lock()
        self._stemmer: Any = None
        if stemmer:
            import Stemmer

            self._stemmer = Stemmer.Stemmer("english")

    def of_query(self, text: str) -> list[str]:
        """The words of a query, without frequent ones (`of`, `the`) unless it has no others."""
        words = self(text)
        return [word for word in words if word not in frequent_words()] or words

    def __call__(self, text: str) -> list[str]:
        folded = unicodedata.normalize("NFKD", text.casefold())
        plain = "".join(character for character in folded if not unicodedata.combining(character))
        words = _WORD.findall(plain)
        if self._stemmer is None:
            return words
        with self._lock:  # PyStemmer's objects are not thread-safe
            return list(self._stemmer.stemWords(words))


@dataclass(frozen=True)
class Bm25:
    """Searches passages in memory."""

    passages: Sequence[Passage]
    words: Words
    bm25: Any
    origin: str
    """Where the passages come from, for reports."""
    hash: str
    """Of the passages."""

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """For each query at most `top_k` passages that share a word with it, best first."""
        return [self._search(query, top_k) for query in queries]

    def facts(self) -> dict[str, Any]:
        """How many passages there are, and where they come from."""
        return {"passages": len(self.passages), "corpus": self.origin, "backend": "bm25", "hash": self.hash}

    def close(self) -> None:
        """Nothing to do: what is in memory goes with the object."""

    def _search(self, query: str, top_k: int) -> list[Hit]:
        import numpy

        known = [word for word in self.words.of_query(query) if word in self.bm25.vocab_dict]
        if not known:
            return []
        scores = self.bm25.get_scores(known)
        hits = numpy.flatnonzero(scores > 0)
        best = hits[numpy.argsort(-scores[hits], kind="stable")[:top_k]]
        return [Hit(self.passages[number], float(scores[number])) for number in best]


def open_bm25(passages: Sequence[Passage], words: Words, cache_dir: str, origin: str) -> Bm25:
    """The index of the passages, from the cache if that holds an intact one."""
    digest = corpus_hash(passages)
    folder = Path(cache_dir) / "wiki_search" / _key(digest, words)
    bm25 = _load(folder)
    if bm25 is None:
        bm25 = _build(passages, words)
        try:
            _store(bm25, folder)
        except OSError as error:
            logger.warning("the search index is not cached, since %s cannot be written (%s)", folder, error)
    return Bm25(passages, words, bm25, origin, digest)


def _build(passages: Sequence[Passage], words: Words) -> Any:
    numbers: dict[str, int] = {}
    with working("splitting passages into words", len(passages), unit="passages") as work:
        texts = []
        for passage in passages:
            texts.append([numbers.setdefault(word, len(numbers)) for word in words(f"{passage.title}\n{passage.text}")])
            work.advance()
    if not numbers:
        # bm25s cannot index a corpus without words; no query contains this one, since it has no word characters.
        numbers, texts = {"\n": 0}, [[0] for _ in texts]
    bm25 = bm25s().BM25(method="lucene", backend="numpy")
    with working("indexing by BM25", unit="passages") as work:
        bm25.index((_Shown(work, texts), numbers), show_progress=False)
    return bm25


class _Shown(list[list[int]]):
    """The words of passages, as numbers; bm25s goes through them more than once, and the work counts each time anew."""

    def __init__(self, work: Work, texts: list[list[int]]) -> None:
        super().__init__(texts)
        self._work = work

    def __iter__(self) -> Iterator[list[int]]:
        self._work.restart(len(self))
        for text in super().__iter__():
            yield text
            self._work.advance()


def _store(bm25: Any, folder: Path) -> None:
    """Write to a temporary folder and rename it, so that a reader sees a complete index or none."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".writing-", ignore_cleanup_errors=True) as temporary:
        fresh = Path(temporary) / "index"
        bm25.save(fresh, show_progress=False)
        manifest = {file.name: _checksum(file) for file in sorted(fresh.iterdir())}
        (fresh / _MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
        if folder.exists():
            os.replace(folder, Path(temporary) / "damaged")
        try:
            os.replace(fresh, folder)
        except OSError:
            if not (folder / _MANIFEST).exists():  # otherwise another process was faster, with the same index
                raise


def _load(folder: Path) -> Any:
    """The stored index, or None if there is none or it is damaged."""
    try:
        manifest = read_json(folder / _MANIFEST)
        if not manifest or any(_checksum(folder / name) != checksum for name, checksum in manifest.items()):
            raise ValueError("a checksum differs")
        check_folder(folder)
        return bm25s().BM25.load(folder, show_progress=False, verbosity=0)
    except FileNotFoundError:
        return None
    except Exception as error:  # whatever a damaged file makes numpy, json or bm25s raise
        logger.warning("the search index in %s is damaged (%s) and is built again", folder, error)
        return None


def _key(corpus: str, words: Words) -> str:
    """The name of the index of a corpus in the cache."""
    return blake2b(f"{bm25s().__version__} {words.key} {corpus}".encode(), digest_size=16).hexdigest()


def _checksum(file: Path) -> str:
    with open_to_read(file) as opened:
        digest = blake2b(digest_size=16)
        while block := opened.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
