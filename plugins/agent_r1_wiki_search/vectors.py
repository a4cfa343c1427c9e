"""Finds the nearest vectors: exactly with numpy or FAISS, or approximately with FAISS's IVF-PQ or HNSW.

IVF-PQ (Jégou et al., 2011) looks into some lists of compressed vectors and ranks the best again by their vectors on
disk; HNSW (Malkov and Yashunin, 2016) walks a graph over whole vectors. Where FAISS's GPU build is installed and there
is a GPU, IVF-PQ is trained, filled and searched there, and `flat` is searched there; HNSW has no version for GPUs.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agent_r1_core import ConfigError, working
from agent_r1_core.opening import check_regular, open_to_read
from agent_r1_wiki_search.packages import require

if TYPE_CHECKING:
    import numpy


class Kind(StrEnum):
    """What finds vectors."""

    NUMPY = "numpy"
    FLAT = "flat"
    IVF_PQ = "ivf_pq"
    HNSW = "hnsw"


FILE = "faiss.index"
_PARTLY = "faiss.part"
_BLOCK = 1 << 16
_SAVE = 1 << 21
"""Vectors after which what was added survives a kill; what was learnt does at once."""
_PER_LIST = 64
"""Vectors to learn each list of an IVF index from."""
_FEW_PER_CENTRE = 39
"""Vectors for a list or a code, below which FAISS holds that it is learnt badly."""
_FEWEST = _FEW_PER_CENTRE * 256
"""Vectors to learn the codes from."""
_CODE_BYTES = (64, 48, 32, 16, 8, 4, 2, 1)
_CANDIDATES = 8
"""Times `top_k`: how many IVF-PQ's compressed vectors propose."""
_EFFORT = {"ivf_pq": 64, "hnsw": 128}


class Vectors(Protocol):
    """Finds the vectors with the largest inner product."""

    def search(self, queries: numpy.ndarray, top_k: int) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Scores and numbers of the best, `[queries, at most top_k]`, best first; number -1 where there is none."""
        ...


@dataclass(frozen=True)
class Structure:
    """How to build what finds vectors."""

    kind: Kind = Kind.NUMPY
    lists: int | None = None
    """Of IVF-PQ; None: 4 times the square root of the number of passages."""
    code_bytes: int | None = None
    """Of a vector compressed by IVF-PQ; None: the most up to 64 that divides the dimension."""
    links: int = 32
    """Of a vector in HNSW's graph."""

    def parameters(self) -> dict[str, Any]:
        own: dict[str, dict[str, Any]] = {
            "ivf_pq": {"lists": self.lists, "code_bytes": self.code_bytes},
            "hnsw": {"links": self.links},
        }
        return {"vectors": str(self.kind), **own.get(self.kind, {})}

    def build(self, embeddings: numpy.ndarray, folder: Path) -> dict[str, Any]:
        """Build it in the folder, in a file of its own unless it is numpy's, or finish what an interrupted call began
        with these vectors; returns its parameters."""
        if self.kind == "numpy":
            return self.parameters()
        import faiss

        description, parameters = self.describe(*embeddings.shape)
        if (folder / FILE).exists():  # a build that was interrupted later
            return parameters
        partly = folder / _PARTLY
        index: Any
        if partly.exists():
            check_regular(partly)
            index = faiss.read_index(str(partly))
        else:
            index = faiss.index_factory(embeddings.shape[1], description, faiss.METRIC_INNER_PRODUCT)
        if self.kind == "hnsw":
            index.hnsw.efConstruction = 128
        elif self.kind == "ivf_pq":
            index.do_polysemous_training = False  # for a search that we do not use; it would take minutes
            for clustering in (index.cp, index.pq.cp):
                clustering.min_points_per_centroid = 1  # FAISS warns for each part of a code; `warning` says it once
        adding = _on_gpus(index) if self.kind == "ivf_pq" else index
        if not adding.is_trained:
            sample = _sample(embeddings, max(_FEWEST, _PER_LIST * parameters["lists"]))
            with working(f"learning lists and codes from {len(sample):,} vectors"):
                adding.train(sample)
            _write(adding, index, partly)
        done = adding.ntotal
        with working("adding vectors", len(embeddings), done=done, unit="vectors") as work:
            for start in range(done, len(embeddings), _BLOCK):
                if start > done and (start - done) % _SAVE == 0:
                    _write(adding, index, partly)
                block = embeddings[start : start + _BLOCK].astype("float32")
                adding.add(block)
                work.advance(len(block))
        _write(adding, index, partly)
        os.replace(partly, folder / FILE)
        return parameters

    def check(self, dimension: int) -> None:
        """See whether it can be built here over vectors of this dimension.

        Raises:
            ConfigError: the package faiss is missing, or the codes do not fit the vectors.
        """
        if self.kind != "numpy":
            require("faiss")
        if self.code_bytes and dimension % self.code_bytes:
            raise ConfigError(
                f"code_bytes {self.code_bytes} does not divide the {dimension} numbers of a vector; change it"
            )

    def describe(self, count: int, dimension: int) -> tuple[str, dict[str, Any]]:
        """FAISS's description of an index of so many vectors, and what the manifest says of it.

        Raises:
            ConfigError: the vectors are too few.
        """
        if self.kind in ("numpy", "flat"):
            return "Flat", self.parameters()
        if self.kind == "hnsw":
            return f"HNSW{self.links},Flat", self.parameters()
        lists = self.lists or max(1, min(round(4 * count**0.5), count // _FEW_PER_CENTRE))
        code_bytes = self.code_bytes or next(size for size in _CODE_BYTES if dimension % size == 0)
        if count < max(256, lists):
            raise ConfigError(f"ivf_pq learns from more than these {count:,} passages; use vectors numpy")
        return f"IVF{lists},PQ{code_bytes}", {"vectors": str(self.kind), "lists": lists, "code_bytes": code_bytes}

    def warning(self, count: int) -> str | None:
        """A sentence for the user if so many vectors are few to learn from."""
        enough = max(_FEWEST, _FEW_PER_CENTRE * (self.lists or 0))
        if self.kind != "ivf_pq" or count >= enough:
            return None
        return f"ivf_pq learns badly from {count:,} passages, since it needs {enough:,}; use vectors numpy"


def remove_vectors(folder: Path) -> None:
    """Forget what `Structure.build` has built, or begun."""
    for name in (FILE, _PARTLY):
        (folder / name).unlink(missing_ok=True)


def open_vectors(folder: Path, embeddings: numpy.ndarray, parameters: dict[str, Any], effort: int | None) -> Vectors:
    """What `Structure.build` has built.

    Args:
        folder: of the index's part.
        embeddings: all vectors.
        parameters: that the build returned.
        effort: of IVF-PQ, how many lists to look into; of HNSW, how many vectors to keep in view; None: 64, 128.

    Raises:
        ConfigError: the package faiss is missing, or an exact search is given an effort.
    """
    kind = parameters["vectors"]
    if effort is not None and kind not in _EFFORT:
        raise ConfigError(f"effort {effort} has no effect on an index with vectors {kind}; leave it out")
    if kind == "numpy":
        return NumpyVectors(embeddings)
    return FaissVectors(folder / FILE, embeddings, kind, effort or _EFFORT.get(kind, 0))


class NumpyVectors:
    """Compares with every vector, exactly; holds all in memory in float32. For up to about a million."""

    def __init__(self, embeddings: numpy.ndarray) -> None:
        self._vectors = embeddings.astype("float32")

    def search(self, queries: numpy.ndarray, top_k: int) -> tuple[numpy.ndarray, numpy.ndarray]:
        """As `Vectors.search`; equal scores keep the order of the corpus."""
        import numpy

        scores: list[numpy.ndarray] = []
        numbers: list[numpy.ndarray] = []
        for start in range(0, len(self._vectors), _BLOCK):
            found = queries @ self._vectors[start : start + _BLOCK].T
            best = numpy.argpartition(-found, min(top_k, found.shape[1]) - 1)[:, :top_k]
            scores.append(numpy.take_along_axis(found, best, 1))
            numbers.append(best + start)
        return _best(numpy.concatenate(scores, 1), numpy.concatenate(numbers, 1), top_k)


class FaissVectors:
    """Asks an index of FAISS."""

    def __init__(self, file: Path, embeddings: numpy.ndarray, kind: str, effort: int) -> None:
        require("faiss")
        import faiss

        self._kind, self._embeddings = kind, embeddings
        check_regular(file)
        index: Any = faiss.read_index(str(file))
        if kind == "ivf_pq":
            index.nprobe = min(effort, index.nlist)
        elif kind == "hnsw":
            index.hnsw.efSearch = effort
        self._index = index if kind == "hnsw" else _on_gpus(index)
        self._lock = threading.Lock() if self._index is not index else None  # an index on a GPU serves one at a time

    def search(self, queries: numpy.ndarray, top_k: int) -> tuple[numpy.ndarray, numpy.ndarray]:
        wanted = top_k * _CANDIDATES if self._kind == "ivf_pq" else top_k
        if self._lock is None:
            scores, numbers = self._index.search(queries, wanted)
        else:
            with self._lock:
                scores, numbers = self._index.search(queries, wanted)
        if self._kind == "ivf_pq":
            scores = self._exactly(queries, numbers)
        return _best(scores, numbers, top_k)

    def _exactly(self, queries: numpy.ndarray, numbers: numpy.ndarray) -> numpy.ndarray:
        """The inner products with these vectors; -inf where there is none."""
        import numpy

        vectors = self._embeddings[numpy.maximum(numbers, 0)].astype(numpy.float32)
        exact = numpy.einsum("qd,qkd->qk", queries, vectors)
        return numpy.where(numbers < 0, -numpy.inf, exact)


def _best(scores: numpy.ndarray, numbers: numpy.ndarray, top_k: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The `top_k` best of each row, best first, equal ones by their numbers."""
    import numpy

    order = numpy.lexsort((numbers, -scores))[:, :top_k]
    return numpy.take_along_axis(scores, order, 1), numpy.take_along_axis(numbers, order, 1)


def _sample(embeddings: numpy.ndarray, count: int) -> numpy.ndarray:
    """At most so many vectors, at random, always the same ones."""
    import numpy

    if count >= len(embeddings):
        return embeddings.astype(numpy.float32)
    rows = numpy.random.default_rng(0).choice(len(embeddings), count, replace=False)
    return embeddings[numpy.sort(rows)].astype(numpy.float32)


def _write(adding: Any, index: Any, file: Path) -> None:
    """Write an index, which may work on GPUs in place of the one it was made from, in whole or not at all."""
    import faiss

    temporary = file.with_name(f"{file.name}.tmp")
    try:
        faiss.write_index(index if adding is index else faiss.index_gpu_to_cpu(adding), str(temporary))
        with open_to_read(temporary) as written:
            os.fsync(written.fileno())
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def _on_gpus(index: Any) -> Any:
    """The index spread over all GPUs; the same one where FAISS has no GPU build, or there is no GPU."""
    import faiss

    if not hasattr(faiss, "StandardGpuResources") or not faiss.get_num_gpus():
        return index
    options = faiss.GpuMultipleClonerOptions()
    options.shard, options.useFloat16 = True, True
    return faiss.index_cpu_to_all_gpus(index, options)
