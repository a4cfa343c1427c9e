"""Opens an index folder as a Searcher."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent_r1_core import ConfigError
from agent_r1_wiki_search.building import PASSAGES
from agent_r1_wiki_search.dense_part import DenseSearcher
from agent_r1_wiki_search.hybrid import WEIGHTS, HybridSearcher, K
from agent_r1_wiki_search.manifest import Manifest
from agent_r1_wiki_search.passages import Passages
from agent_r1_wiki_search.searcher import Searcher
from agent_r1_wiki_search.tantivy_part import TantivySearcher

PARTS = {"tantivy": ("tantivy",), "dense": ("dense",), "hybrid": ("tantivy", "dense")}
"""The parts of an index that each way to search it needs."""


@dataclass(frozen=True)
class SearchOptions:
    """How to search an index, where there is a choice."""

    model: str | None = None
    """Where the encoder of a dense index is now; None: where it was."""
    device: str | None = None
    """Of the encoder, as torch names it; None: a GPU if there is one."""
    effort: int | None = None
    """See `vectors.open_vectors`."""
    k: float = K
    weights: tuple[float, float] = WEIGHTS


def backend_of(folder: Path, manifest: Manifest, backend: str | None) -> str:
    """The backend that searches an index: the one that uses all that was built, unless another is asked for.

    Raises:
        ConfigError: it was not built for that.
    """
    built = tuple(part for part in PARTS["hybrid"] if part in manifest.parts)
    best = next(name for name, parts in PARTS.items() if parts == built)
    if not set(PARTS.get(backend or best, [""])) <= set(built):
        raise ConfigError(f"the index {folder} was built for {best}, not for {backend}; give backend {best}")
    return backend or best


def open_folder(folder: Path, backend: str | None = None, options: SearchOptions | None = None) -> Searcher:
    """The index in a folder.

    Args:
        folder: of the index.
        backend: `tantivy`, `dense` or `hybrid`; None: the one that uses all that was built.
        options: of the search.

    Raises:
        ConfigError: it was not built for that, or with another encoder.
        TaskError: there is no index, or it is damaged.
    """
    manifest, options = Manifest.read(folder), options or SearchOptions()
    backend = backend_of(folder, manifest, backend)
    passages = Passages(folder / PASSAGES)
    facts = {"passages": manifest.passages, "corpus": manifest.corpus, "hash": manifest.hash}

    def lexical() -> Searcher:
        return TantivySearcher(folder / "tantivy", passages, manifest.parts["tantivy"], facts)

    def dense() -> Searcher:
        about = folder / "dense", passages, manifest.parts["dense"], facts
        return DenseSearcher(*about, options.model, options.device, options.effort)

    if backend == "hybrid":
        return HybridSearcher(lexical(), dense(), options.k, options.weights)
    return lexical() if backend == "tantivy" else dense()
