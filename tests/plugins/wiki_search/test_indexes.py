"""What finds words on disk, as in memory, and the nearest vectors, exactly and approximately."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
from agent_r1_wiki_search import packages
from agent_r1_wiki_search import vectors as vectors_module
from agent_r1_wiki_search.corpus import corpus_hash
from agent_r1_wiki_search.folder import open_folder
from agent_r1_wiki_search.manifest import FILE as MANIFEST
from agent_r1_wiki_search.vectors import FILE, Kind, Structure, open_vectors

from agent_r1_core import ConfigError, Work
from agent_r1_core.errors import NotOpened

from .conftest import titles


def unit(count: int, seed: int = 0) -> numpy.ndarray:
    """Vectors of length 1 around a hundred centres, as those of passages on a hundred subjects."""
    rng = numpy.random.default_rng(seed)
    centres = numpy.random.default_rng(9).normal(size=(100, 32))
    found = centres[rng.integers(100, size=count)] + 0.7 * rng.normal(size=(count, 32))
    return (found / numpy.linalg.norm(found, axis=1, keepdims=True)).astype(numpy.float16)


def nearest(embeddings: numpy.ndarray, queries: numpy.ndarray) -> numpy.ndarray:
    """The ten nearest of each query."""
    scores = queries @ embeddings.astype(numpy.float32).T
    return numpy.argsort(-scores, axis=1, kind="stable")[:, :10]


def recall(embeddings: numpy.ndarray, queries: numpy.ndarray, numbers: numpy.ndarray) -> float:
    """The share of the ten nearest that was found."""
    pairs = zip(numbers, nearest(embeddings, queries), strict=True)
    return float(numpy.mean([len(set(one) & set(other)) / 10 for one, other in pairs]))


def test_numpy_is_exact_across_blocks_and_keeps_the_order_of_equals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors_module, "_BLOCK", 64)
    embeddings, queries = unit(500), unit(7, seed=1).astype(numpy.float32)
    embeddings[300] = embeddings[20] = embeddings[450]
    found = open_vectors(Path(), embeddings, {"vectors": "numpy"}, None)
    scores, numbers = found.search(queries, 10)
    assert (numbers == nearest(embeddings, queries)).all()
    assert (numpy.diff(scores) <= 0).all()
    assert found.search(embeddings[20:21].astype(numpy.float32), 3)[1].tolist() == [[20, 300, 450]]
    assert found.search(queries, 1000)[1].shape == (7, 500)


@pytest.mark.usefixtures("_faiss")
@pytest.mark.parametrize(
    ("structure", "at_least"),
    [(Structure(Kind.FLAT), 1.0), (Structure(Kind.IVF_PQ, lists=20), 0.95), (Structure(Kind.HNSW, links=16), 0.95)],
)
def test_faiss_finds_what_is_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, structure: Structure, at_least: float
) -> None:
    monkeypatch.setattr(vectors_module, "_FEWEST", 1500)  # it learns faster
    embeddings, queries = unit(10_000), unit(50, seed=1).astype(numpy.float32)
    parameters = structure.build(embeddings, tmp_path)
    assert parameters["vectors"] == structure.kind
    found = open_vectors(tmp_path, embeddings, parameters, None)
    scores, numbers = found.search(queries, 10)
    assert recall(embeddings, queries, numbers) >= at_least
    exact = numpy.take_along_axis(queries @ embeddings.astype(numpy.float32).T, numbers, 1)
    assert numpy.allclose(scores, exact, atol=2e-3), "IVF-PQ's candidates are ranked by their own vectors"
    assert (numpy.diff(scores) <= 0).all()


@pytest.mark.usefixtures("_faiss")
def test_effort_buys_recall(tmp_path: Path) -> None:
    embeddings, queries = unit(10_000), unit(50, seed=1).astype(numpy.float32)
    parameters = Structure(Kind.HNSW, links=4).build(embeddings, tmp_path)
    few, many = (open_vectors(tmp_path, embeddings, parameters, effort).search(queries, 10)[1] for effort in (10, 200))
    assert recall(embeddings, queries, few) < recall(embeddings, queries, many)
    with pytest.raises(ConfigError, match="effort 5 has no effect on an index with vectors flat"):
        open_vectors(tmp_path, embeddings, {"vectors": "flat"}, 5)


def test_too_few_vectors_to_learn_well_from_are_told() -> None:
    few = Structure(Kind.IVF_PQ)
    assert few.warning(9_983) == "ivf_pq learns badly from 9,983 passages, since it needs 9,984; use vectors numpy"
    assert "needs 39,000" in str(Structure(Kind.IVF_PQ, lists=1000).warning(38_999))
    enough = few.warning(9_984), Structure(Kind.IVF_PQ, lists=1000).warning(39_000), Structure().warning(10)
    assert enough == (None, None, None)


class Killed(Exception):
    """Stands for a kill."""


@pytest.mark.slow
@pytest.mark.usefixtures("_faiss")
@pytest.mark.parametrize("kind", [Kind.IVF_PQ, Kind.HNSW])
def test_an_interrupted_index_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    monkeypatch.setattr(vectors_module, "_BLOCK", 500)
    monkeypatch.setattr(vectors_module, "_SAVE", 1000)
    structure, embeddings, did = Structure(kind, lists=8, code_bytes=8), unit(4000), []

    class Stopping(Work):
        at = 2500

        def __init__(self, what: str, total: float | None = None, *, done: float = 0, unit: str = "") -> None:
            super().__init__(what, total, done=done, unit=unit)
            did.append((what.split()[0], done))

        def advance(self, count: float = 1) -> None:
            super().advance(count)
            if self.what == "adding vectors" and self.done == self.at:
                raise Killed

    monkeypatch.setattr("agent_r1_core.work.work.Work", Stopping)
    with pytest.raises(Killed):
        structure.build(embeddings, tmp_path)
    Stopping.at = 0
    for _ in range(2):
        parameters = structure.build(embeddings, tmp_path)
    assert did[-1] == ("adding", 2000), "a finished index is not built again"
    assert [label for label, _ in did].count("learning") == (kind is Kind.IVF_PQ)
    assert [file.name for file in tmp_path.iterdir()] == [FILE]
    queries = unit(50, seed=1).astype(numpy.float32)
    whole = tmp_path / "whole"
    whole.mkdir()
    structure.build(embeddings, whole)
    one, other = (
        open_vectors(folder, embeddings, parameters, None).search(queries, 10) for folder in (tmp_path, whole)
    )
    assert (one[1] == other[1]).mean() > 0.95, "HNSW draws its levels anew"


def test_without_faiss_numpy_still_searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    assert Structure().build(unit(10), tmp_path) == {"vectors": "numpy"}
    with pytest.raises(ConfigError, match="the package faiss-cpu is missing"):
        Structure(Kind.FLAT).check(32)
    found: Any = open_vectors(tmp_path, unit(10), {"vectors": "numpy"}, None)
    assert found.search(unit(1, seed=1).astype(numpy.float32), 2)[1].shape == (1, 2)


@pytest.mark.usefixtures("_tantivy")
def test_a_query_is_text_whatever_its_signs(tmp_path: Path, built: Any, words: Any) -> None:
    searcher = open_folder(built(tmp_path / "index", words, backend="tantivy"), "tantivy")
    for query, title in (
        ("capital of France", "France"),
        ('it\'s "AC/DC"?', "AC/DC"),
        ("text:AC -text:DC AND (", "AC/DC"),
        ("number:3 OR demon*", "Alû"),
    ):
        assert titles(searcher, query) == [title]
    bands, nothing, signs = searcher.search(["Australian rock band", "zzqq", "?!"], 2)
    assert [hit.passage.title for hit in bands] == ["AC/DC", "The Who"]
    assert bands[0].score > bands[1].score > 0
    assert nothing == signs == []
    facts = {"passages": 6, "corpus": "here", "hash": corpus_hash(words), "backend": "tantivy"}
    assert searcher.facts() == facts


@pytest.mark.usefixtures("_tantivy")
def test_an_index_of_links_is_read_but_no_lock_is_made_through_one(tmp_path: Path, built: Any) -> None:
    blobs = built(tmp_path / "blobs", backend="tantivy")
    assert titles(open_folder(_links(tmp_path / "snapshot", blobs), "tantivy"), "Norway") == ["Oslo"]
    manifest = json.loads((blobs / MANIFEST).read_text())
    manifest["files"] = {name: facts for name, facts in manifest["files"].items() if not name.endswith(".lock")}
    (blobs / MANIFEST).write_text(json.dumps(manifest))
    for name in (".tantivy-meta.lock", ".tantivy-writer.lock"):
        snapshot = _links(tmp_path / f"snapshot{name}", blobs)
        (snapshot / "tantivy" / name).unlink()
        (snapshot / "tantivy" / name).symlink_to(tmp_path / name)
        with pytest.raises(NotOpened, match="a link that leads out"):
            open_folder(snapshot, "tantivy")
        assert not (tmp_path / name).exists()


def _links(snapshot: Path, blobs: Path) -> Path:
    """A folder of links to the files of another."""
    for file in [path for path in blobs.rglob("*") if path.is_file()]:
        (link := snapshot / file.relative_to(blobs)).parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file)
    return snapshot
