"""Dense search: passages whose vectors are nearest to the query's."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core import ConfigError, working
from agent_r1_core.opening import check_regular, open_to_write, read_json
from agent_r1_wiki_search.encoder import Encoder
from agent_r1_wiki_search.passages import Passages
from agent_r1_wiki_search.searcher import Hit
from agent_r1_wiki_search.vectors import Structure, open_vectors, remove_vectors

if TYPE_CHECKING:
    import numpy

FILE = "embeddings.f16"
_STATE = "encoded.json"
_BLOCK = 2048


def write_embeddings(passages: Passages, encoder: Encoder, corpus: str, folder: Path) -> bool:
    """Encode the passages that an interrupted call has not; its work counts if the corpus has the same hash.

    Returns whether there were any. The whole file is reserved before the first passage is encoded, so that a full disk
    shows at once.

    Raises:
        OSError: the file system refuses.
    """
    import numpy

    folder.mkdir(exist_ok=True)
    row = 2 * encoder.dimension
    done = before = _done(folder, corpus)
    handle = open_to_write(folder / FILE, os.O_RDWR | os.O_CREAT)
    try:
        try:
            os.posix_fallocate(handle, 0, len(passages) * row)
        except OSError:
            os.ftruncate(handle, done * row)
            raise
        os.ftruncate(handle, len(passages) * row)
        coming = passages.since(done)
        with working("encoding", len(passages), done=done, unit="passages") as work:
            while block := list(islice(coming, _BLOCK)):
                vectors = encoder.passages([f"{passage.title}\n{passage.text}" for passage in block])
                os.pwrite(handle, vectors.astype(numpy.float16).tobytes(), done * row)
                os.fsync(handle)
                done += len(block)
                _set_done(folder, corpus, done)
                work.advance(len(block))
    finally:
        os.close(handle)
    return done > before


def read_embeddings(folder: Path, dimension: int) -> numpy.ndarray:
    """`[passages, dimension]`, float16, mapped into memory."""
    import numpy

    check_regular(folder / FILE)
    return numpy.memmap(folder / FILE, numpy.float16, "r").reshape(-1, dimension)


def _done(folder: Path, corpus: str) -> int:
    try:
        state = read_json(folder / _STATE)
    except (OSError, ValueError):
        return 0
    return int(state["passages"]) if state["corpus"] == corpus else 0


def _set_done(folder: Path, corpus: str, done: int) -> None:
    temporary = folder / f"{_STATE}.tmp"
    temporary.write_text(json.dumps({"corpus": corpus, "passages": done}))
    os.replace(temporary, folder / _STATE)


@dataclass(frozen=True)
class DensePart:
    """How to build the dense part of an index."""

    encoder: Encoder
    structure: Structure = field(default_factory=Structure)
    name: str = "dense"

    def parameters(self) -> dict[str, Any]:
        """What the part of an index is built with.

        Raises:
            ConfigError: the package faiss is missing, or the encoder's vectors do not fit its codes.
        """
        self.structure.check(self.encoder.dimension)
        return self.encoder.parameters() | self.structure.parameters()

    def check(self, passages: int) -> str | None:
        """See whether so many passages are enough; returns a sentence where they are few.

        Raises:
            ConfigError: they are too few for its index.
        """
        self.structure.describe(passages, self.encoder.dimension)
        return self.structure.warning(passages)

    def build(self, passages: Passages, corpus: str, folder: Path) -> dict[str, Any]:
        """Encode the passages and build what finds their vectors."""
        if write_embeddings(passages, self.encoder, corpus, folder):
            remove_vectors(folder)  # of an earlier corpus
        embeddings = read_embeddings(folder, self.encoder.dimension)
        return self.encoder.parameters() | self.structure.build(embeddings, folder)


class DenseSearcher:
    """Searches the dense part of an index."""

    def __init__(
        self,
        folder: Path,
        passages: Passages,
        parameters: dict[str, Any],
        facts: dict[str, Any],
        model: str | None = None,
        device: str | None = None,
        effort: int | None = None,
    ) -> None:
        """Open it.

        Args:
            folder: of the part.
            passages: the index's.
            parameters: with which it was built.
            facts: about the index.
            model: where its encoder is now; None: where it was.
            device: of the encoder.
            effort: see `open_vectors`.

        Raises:
            ConfigError: the model has other weights than the one that the index was built with.
            ModelError: the model cannot be loaded.
        """
        prefixes = parameters["query_prefix"], parameters["passage_prefix"]
        self._encoder = Encoder(model or parameters["model"], *prefixes, device)
        if self._encoder.hash != parameters["weights"]:
            raise ConfigError(
                f"the index {folder.parent} was built with the encoder {parameters['model']}, whose weights differ "
                f"from those of {self._encoder.name}; give that encoder, or build the index again with this one"
            )
        self._passages = passages
        self._vectors = open_vectors(folder, read_embeddings(folder, parameters["dimension"]), parameters, effort)
        about = {name: parameters[name] for name in ("model", "weights", "vectors")}
        self._facts = {**facts, "backend": "dense", **about}

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """For each query the `top_k` passages whose vectors are nearest, best first."""
        if not queries:
            return []
        found = zip(*self._vectors.search(self._encoder.queries(queries), top_k), strict=True)
        return [
            [
                Hit(self._passages[int(number)], float(score))
                for score, number in zip(scores, numbers, strict=True)
                if number >= 0
            ]
            for scores, numbers in found
        ]

    def facts(self) -> dict[str, Any]:
        """How many passages there are, where they come from, and what encodes and finds them."""
        return self._facts

    def close(self) -> None:
        """Nothing to do: files and memory go with the object."""
