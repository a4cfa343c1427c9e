"""Dense and hybrid search, with a real encoder."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
from agent_r1_wiki_search.bm25 import Words, open_bm25
from agent_r1_wiki_search.building import Source, build_index, file_source
from agent_r1_wiki_search.dense_part import DensePart, read_embeddings
from agent_r1_wiki_search.encoder import Encoder
from agent_r1_wiki_search.folder import SearchOptions, open_folder
from agent_r1_wiki_search.hybrid import HybridSearcher
from agent_r1_wiki_search.manifest import Manifest
from agent_r1_wiki_search.plans import Plan, parts_of
from agent_r1_wiki_search.searcher import Hit, Searcher
from agent_r1_wiki_search.vectors import Kind

from agent_r1_core import ConfigError, Passage
from agent_r1_core.errors import ModelError

from .conftest import killed, titles

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dense(minilm: str, built: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("dense") / "index", backend="dense", model=minilm)


def test_meaning_is_found_without_a_common_word_in_threads(dense: Path, minilm: str, places: Any) -> None:
    searcher = open_folder(dense)
    assert titles(searcher, "main city of an African country", "ballroom movement") == ["Bamako", "Waltz"]
    ((first, *others),) = searcher.search(["Which town rules Norway?"], 10)
    assert first.passage == places[0]
    assert len(others) == 2
    assert 1 >= first.score > others[0].score
    facts = searcher.facts()
    assert (facts["passages"], facts["backend"], facts["model"], facts["vectors"]) == (3, "dense", minilm, "numpy")
    with ThreadPoolExecutor() as threads:
        found = list(threads.map(lambda passage: titles(searcher, passage.text), places * 10))
    assert found == [[passage.title] for passage in places * 10]


@pytest.mark.usefixtures("_faiss")
def test_the_structure_is_the_manifests_and_what_cannot_be_built_shows_early_and_leaves_nothing(
    tmp_path: Path, minilm: str, dense: Path, built: Any, places: Any
) -> None:
    target, queries = tmp_path / "index", [passage.text for passage in places]
    with pytest.raises(ConfigError, match="learns from more than these 3 passages; use vectors numpy"):
        built(target, backend="dense", model=minilm, vectors=Kind.IVF_PQ)
    unread = Source("here", lambda: pytest.fail("the corpus was read"))
    with pytest.raises(ConfigError, match="code_bytes 5 does not divide the 384 numbers"):
        build_index(unread, parts_of(Plan("dense", model=minilm, vectors=Kind.IVF_PQ, code_bytes=5)), target)
    assert list(tmp_path.iterdir()) == []
    built(target, backend="dense", model=minilm, vectors=Kind.HNSW, links=8)
    assert Manifest.read(target).parts["dense"]["links"] == 8
    assert titles(open_folder(target), *queries, top_k=3) == titles(open_folder(dense), *queries, top_k=3)


def test_prefixes_reach_the_encoder_and_are_the_indexs_own(tmp_path: Path, minilm: str, built: Any) -> None:
    encoder = Encoder(minilm, query_prefix="query: ", passage_prefix="passage: ")
    plain = Encoder(minilm)
    assert numpy.allclose(encoder.queries(["Oslo"]), plain.queries(["query: Oslo"]), atol=1e-5)
    assert numpy.allclose(encoder.passages(["Oslo"]), plain.passages(["passage: Oslo"]), atol=1e-5)
    assert not numpy.allclose(encoder.queries(["Oslo"]), plain.queries(["Oslo"]), atol=1e-2)
    folder = built(tmp_path / "index", backend="dense", model=minilm, query_prefix="x ", passage_prefix="query: ")
    parameters = Manifest.read(folder).parts["dense"]
    assert (parameters["query_prefix"], parameters["passage_prefix"]) == ("x ", "query: ")
    (hit,) = open_folder(folder).search(["Mali"], 1)[0]
    expected = (encoder.queries([f"{hit.passage.title}\n{hit.passage.text}"]) @ plain.queries(["x Mali"]).T).item()
    assert hit.score == pytest.approx(expected, abs=2e-3)


def test_an_index_of_another_encoder_is_refused(tmp_path: Path, minilm: str, dense: Path) -> None:
    from sentence_transformers import SentenceTransformer

    shutil.copytree(minilm, tmp_path / "moved")
    assert titles(open_folder(dense, options=SearchOptions(model=str(tmp_path / "moved"))), "Norway") == ["Oslo"]
    other = SentenceTransformer(minilm)
    next(other.parameters()).data[5, 7] += 0.01
    other.save(str(tmp_path / "other"))
    with pytest.raises(ConfigError, match=r"was built with the encoder .*, whose weights differ from .*other;"):
        open_folder(dense, options=SearchOptions(model=str(tmp_path / "other")))
    with pytest.raises(ConfigError, match="was built for dense, not for hybrid; give backend dense"):
        open_folder(dense, "hybrid")


def test_no_encoder_is_one_sentence_and_a_path_is_not_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (str(tmp_path), "nobody/encoder"):
        with pytest.raises(ModelError, match=r"the encoder .* cannot be loaded \(.*\); give the folder of") as caught:
            Encoder(name)
        assert "\n" not in str(caught.value)
    monkeypatch.setattr("sentence_transformers.SentenceTransformer", lambda *_, **__: pytest.fail("it was looked up"))
    for name in ("./absent", "../absent", "~/absent/encoder", "/absent", "models/absent/encoder"):
        with pytest.raises(ModelError, match=f"there is no encoder at {name}; give the folder of a sentence-transf"):
            Encoder(name)


def test_encoding_goes_on_after_a_kill(tmp_path: Path, minilm: str, write_corpus: Any) -> None:
    towns = [Passage(f"Town {number}", f"A place, founded {number}.") for number in range(40)]
    corpus = write_corpus(towns)
    killed(corpus, "encoding", 0.4, "dense", minilm)
    encoder = Encoder(minilm)
    encoded: list[str] = []
    encode = encoder.passages
    encoder.passages = lambda texts: [encoded.extend(texts), encode(texts)][1]  # type: ignore[method-assign]
    build_index(file_source(corpus), [DensePart(encoder)], tmp_path / "index")
    assert [text.split("\n")[0] for text in encoded] == [town.title for town in towns[16:]]
    vectors = read_embeddings(tmp_path / "index" / "dense", encoder.dimension)
    expected = encode([f"{town.title}\n{town.text}" for town in towns])
    assert numpy.allclose(vectors, expected, atol=2e-3)


def test_a_disk_too_small_for_the_vectors_shows_before_encoding(
    tmp_path: Path, minilm: str, places: Any, write_corpus: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Encoder(minilm)
    monkeypatch.setattr(encoder, "passages", lambda texts: pytest.fail("something was encoded"))

    def refuse(handle: int, offset: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(Exception, match=r"cannot be written \(No space left on device\); free space"):
        build_index(file_source(write_corpus(places)), [DensePart(encoder)], tmp_path / "index")
    assert (tmp_path / ".index.building" / "dense" / "embeddings.f16").stat().st_size == 0


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ({"backend": "tantivy", "model": "m"}, "model has no effect, since backend is tantivy"),
        ({"backend": "dense", "model": "m", "stemmer": True}, "stemmer has no effect, since backend is dense"),
        ({"backend": "dense", "model": "m", "lists": 9}, "lists has no effect, since vectors is not ivf_pq"),
        ({"backend": "hybrid"}, "backend hybrid needs an encoder; give model, a folder or a hub name"),
    ],
)
def test_idle_options_of_a_build_are_refused(plan: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parts_of(Plan(**plan))


@pytest.mark.real_data
def test_real_questions_are_found_and_better_by_both(real_data: Path, minilm: str, tmp_path: Path, built: Any) -> None:
    records = json.loads((real_data / "hotpotqa_100.json").read_text(encoding="utf-8"))[:40]
    paragraphs = [Passage(title, " ".join(text)) for record in records for title, text in record["context"]]
    passages = list(dict.fromkeys(paragraphs))
    dense = open_folder(built(tmp_path / "index", passages, backend="dense", model=minilm))
    hybrid = HybridSearcher(open_bm25(passages, Words(stemmer=False), str(tmp_path), ""), dense)

    def recall(searcher: Searcher, cut: int) -> float:
        shares = []
        for record, hits in zip(records, searcher.search([one["question"] for one in records], cut), strict=True):
            gold = {title for title, _ in record["supporting_facts"]}
            shares.append(len(gold & {hit.passage.title for hit in hits}) / len(gold))
        return sum(shares) / len(shares)

    assert [recall(dense, cut) for cut in (2, 5, 10)] == pytest.approx([0.6, 0.8, 0.9], abs=0.02)
    assert [recall(hybrid, cut) for cut in (2, 5, 10)] == pytest.approx([0.675, 0.8, 0.9], abs=0.02)


def ranked(*order: Passage) -> Any:
    """A searcher that finds passages in a given order."""
    return SimpleNamespace(search=lambda queries, top_k: [[Hit(passage, 1.0) for passage in order[:top_k]]])


def test_fusion_is_the_sum_of_weighted_reciprocal_ranks(places: Any) -> None:
    a, b, c = places
    (hits,) = HybridSearcher(ranked(a, b), ranked(b, c), k=10, weights=(1, 2)).search(["?"], 3)
    assert [(hit.passage, hit.score) for hit in hits] == [(b, 1 / 12 + 2 / 11), (c, 2 / 12), (a, 1 / 11)]
    (equal,) = HybridSearcher(ranked(a, b), ranked(b, a)).search(["?"], 1)
    assert [hit.passage for hit in equal] == [a], "of equal ones the lexical searcher's first"
