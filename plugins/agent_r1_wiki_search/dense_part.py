"""Dense search: passages whose vectors are nearest to the query's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_r1_core import ConfigError
from agent_r1_wiki_search.embeddings import read_embeddings, write_embeddings
from agent_r1_wiki_search.encoder import Encoder
from agent_r1_wiki_search.passages import Passages
from agent_r1_wiki_search.searcher import Hit
from agent_r1_wiki_search.vectors import Structure, open_vectors, remove_vectors


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
