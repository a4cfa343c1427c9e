"""Passages on disk: Arrow files that are mapped into memory, so that tens of millions cost little of it.

Repetitions are left out, recognised by 64 bits of their hashes: 8 bytes a passage. Two different passages among 40
million share them with a chance of 1 in 20,000; one of them would be left out.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core import Passage
from agent_r1_core.opening import check_regular
from agent_r1_wiki_search.corpus import CorpusHash, passage_key

if TYPE_CHECKING:
    import numpy

MOST_PASSAGES = 100_000
"""In one file."""
MOST_CHARACTERS = 1 << 27
"""In one file; they are in memory while it is written."""
_HASH = b"hash"


@dataclass(frozen=True)
class Stored:
    """What was written."""

    passages: int
    hash: str
    """Of the corpus, without repetitions."""
    repeated: int
    """Passages that were left out since they stood before."""
    first_repeated: str | None
    """The place of the first of them."""


class Passages:
    """Reads what `write_passages` wrote; safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        import pyarrow

        self._batches = [pyarrow.ipc.open_file(_mapped(file)).get_batch(0) for file in sorted(folder.glob("*.arrow"))]
        self._starts = [0, *accumulate(batch.num_rows for batch in self._batches)]

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, number: int) -> Passage:
        place = bisect_right(self._starts, number) - 1
        batch, row = self._batches[place], number - self._starts[place]
        return Passage(batch.column(0)[row].as_py(), batch.column(1)[row].as_py())

    def __iter__(self) -> Iterator[Passage]:
        return self.since(0)

    def since(self, number: int) -> Iterator[Passage]:
        """The passages from this number on."""
        for start, batch in zip(self._starts, self._batches, strict=False):
            for first in range(max(0, number - start), batch.num_rows, 1000):
                part = batch.slice(first, 1000)
                yield from map(Passage, part.column(0).to_pylist(), part.column(1).to_pylist())


def write_passages(source: Iterable[tuple[str, Passage]], folder: Path | None) -> Stored:
    """Write passages to files; those that an interrupted call has written, of the same passages, are kept.

    Args:
        source: passages with their places.
        folder: for the files; None: write none, and only find out what there is.

    Raises:
        OSError: the file system refuses.
    """
    import numpy

    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    known, corpus = numpy.empty(0, numpy.uint64), CorpusHash()
    files = passages = repeated = 0
    first_repeated = None
    for batch in _batches(source):
        keys = numpy.frombuffer(b"".join(passage_key(passage) for _, passage in batch), numpy.uint64)
        fresh = _fresh(keys, known)
        repeats = numpy.flatnonzero(~fresh)
        if first_repeated is None and len(repeats):
            first_repeated = batch[repeats[0]][0]
        repeated += len(repeats)
        known = _merged(known, keys[fresh])
        kept = [passage for (_, passage), is_fresh in zip(batch, fresh, strict=True) if is_fresh]
        for passage in kept:
            corpus.update(passage)
        if kept and folder is not None:
            _write(kept, corpus.hexdigest(), folder / f"{files:05}.arrow")
            files += 1
        passages += len(kept)
    for stale in sorted(folder.glob("*.arrow"))[files:] if folder is not None else ():
        stale.unlink()
    return Stored(passages, corpus.hexdigest(), repeated, first_repeated)


def _batches(source: Iterable[tuple[str, Passage]]) -> Iterator[list[tuple[str, Passage]]]:
    batch: list[tuple[str, Passage]] = []
    characters = 0
    for place, passage in source:
        batch.append((place, passage))
        characters += len(passage.title) + len(passage.text)
        if len(batch) == MOST_PASSAGES or characters >= MOST_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _fresh(keys: numpy.ndarray, known: numpy.ndarray) -> numpy.ndarray:
    """Which keys are the first of their kind here and not among the known ones, which are sorted."""
    import numpy

    first = numpy.zeros(len(keys), bool)
    first[numpy.unique(keys, return_index=True)[1]] = True
    if len(known):
        nearest = known[numpy.minimum(numpy.searchsorted(known, keys), len(known) - 1)]
        first &= nearest != keys
    return first


def _merged(known: numpy.ndarray, fresh: numpy.ndarray) -> numpy.ndarray:
    import numpy

    fresh = numpy.sort(fresh)
    return numpy.insert(known, numpy.searchsorted(known, fresh), fresh)


def _write(passages: list[Passage], digest: str, file: Path) -> None:
    """Write one file, whole or not at all, unless it is there; `digest` is the hash of the corpus up to its end."""
    import pyarrow

    if _digest_of(file) == digest:
        return
    columns: dict[str, Any] = {
        "title": pyarrow.array([passage.title for passage in passages], pyarrow.large_string()),
        "text": pyarrow.array([passage.text for passage in passages], pyarrow.large_string()),
    }
    batch = pyarrow.record_batch(columns).replace_schema_metadata({_HASH: digest.encode()})
    temporary = file.with_suffix(".tmp")
    try:
        temporary.unlink(missing_ok=True)
        with temporary.open("xb") as opened:
            with pyarrow.ipc.new_file(opened, batch.schema) as writer:
                writer.write_batch(batch)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def _digest_of(file: Path) -> str | None:
    import pyarrow

    if not file.exists():
        return None
    with pyarrow.ipc.open_file(_mapped(file)) as reader:
        return str(reader.schema.metadata[_HASH].decode())


def _mapped(file: Path) -> Any:
    """The file, mapped into memory."""
    import pyarrow

    check_regular(file)
    return pyarrow.memory_map(str(file))
