"""Reads the passages that `wiki_search` indexes, from a file or from the run's task sources.

`read_corpus` and `source_corpus` hold the whole corpus in memory, `stream_corpus` one passage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from agent_r1_core import ConfigError, Passage, TaskError, ToolResources, stream_records, text_field


class CorpusHash:
    """Identifies a corpus by its passages and their order, whatever file they stand in."""

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=16)

    def update(self, passage: Passage) -> None:
        """Count a further passage in."""
        for text in (passage.title, passage.text):
            encoded = text.encode("utf-8", "surrogatepass")
            self._digest.update(len(encoded).to_bytes(8, "little") + encoded)

    def hexdigest(self) -> str:
        """The hash of the passages so far."""
        return self._digest.hexdigest()


def corpus_hash(passages: Iterable[Passage]) -> str:
    """The hash of these passages."""
    found = CorpusHash()
    for passage in passages:
        found.update(passage)
    return found.hexdigest()


def stream_corpus(path: str) -> Iterator[tuple[str, Passage]]:
    """The passages of a `.json`, `.jsonl`, `.jsonl.gz`, `.parquet` or `.csv` file, each with its place for messages; of
    a folder, those of all its files by their names.

    A record has `title` and `text`, or `contents` whose first line is the title (as in Pyserini's corpora). A `.json`
    file may also hold one object of titles, each with a list of its sentences.

    Raises:
        TaskError: the file is missing, malformed or empty.
    """
    place = None
    for file in corpus_files(path):
        for place, record in stream_records(file, _titled):
            yield place, _passage(record, place)
    if place is None:
        raise TaskError(f"{path} holds no record; give a file that is not empty")


def corpus_files(path: str) -> list[Path]:
    """The files of a corpus: itself, or those in a folder, except hidden ones."""
    found = Path(path)
    if not found.is_dir():
        return [found]
    inside = (file.relative_to(found) for file in found.rglob("*") if file.is_file())
    return [found / file for file in sorted(inside) if not any(part.startswith(".") for part in file.parts)]


def read_corpus(path: str) -> list[Passage]:
    """The passages of a file, as `stream_corpus` reads them, without repetitions.

    Raises:
        TaskError: the file is missing, malformed or empty.
    """
    return list(dict.fromkeys(passage for _, passage in stream_corpus(path)))


def passage_key(passage: Passage) -> bytes:
    """8 bytes that stand for a passage where repetitions are looked for."""
    encoded = f"{passage.title}\0{passage.text}".encode("utf-8", "surrogatepass")
    return blake2b(encoded, digest_size=8).digest()


def source_corpus(resources: ToolResources, sources: Sequence[str]) -> list[Passage]:
    """The passages of these task sources, without repetitions.

    Raises:
        ConfigError: there is no such source, or none of them offers passages.
    """
    for name in sources:
        if name not in resources.corpora:
            known = ", ".join(sorted(resources.corpora)) or "none"
            raise ConfigError(f"wiki_search has source={name} but the corpora here are: {known}; name one, or auto")
    corpora: list[Iterable[Passage]] = [resources.corpora[name]() or [] for name in sources]
    passages = list(dict.fromkeys(passage for corpus in corpora for passage in corpus))
    if not passages:
        raise ConfigError(
            "wiki_search has nothing to search, since the task source offers no corpus; set its option corpus to a "
            "file of passages with title and text, or give the records their passages (qa reads them under passages or "
            "ctxs)"
        )
    return passages


def _titled(texts: dict[str, Any]) -> list[Any] | None:
    """The records in an object of titles, each with its sentences; None: it is something else."""
    if not all(isinstance(text, list) and all(isinstance(one, str) for one in text) for text in texts.values()):
        return None
    return [{"title": title, "text": " ".join(map(str.strip, text))} for title, text in texts.items()]


def _passage(record: Any, where: str) -> Passage:
    if isinstance(record, Mapping) and "contents" in record and "text" not in record:
        title, _, text = text_field(record, "contents", where).partition("\n")
        if not text.strip():
            raise TaskError(f"the contents of {where} have no text after the title's line; add it")
        return Passage(title.strip().strip('"'), text.strip())
    return Passage(text_field(record, "title", where), text_field(record, "text", where))
