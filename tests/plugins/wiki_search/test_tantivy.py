"""BM25 on disk finds what BM25 in memory finds, and takes every query as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_r1_wiki_search.bm25 import Words, open_bm25
from agent_r1_wiki_search.building import Source, build_index, file_source
from agent_r1_wiki_search.corpus import corpus_hash, read_corpus
from agent_r1_wiki_search.folder import open_folder
from agent_r1_wiki_search.manifest import FILE
from agent_r1_wiki_search.searcher import Searcher
from agent_r1_wiki_search.tantivy_part import TantivyPart

from agent_r1_core import Passage
from agent_r1_core.errors import NotOpened

pytestmark = pytest.mark.usefixtures("_tantivy")

PASSAGES = [
    Passage("Lyon", "Lyon is a city in France, on the Rhône."),
    Passage("France", "France is a country. Its capital is Paris."),
    Passage("The Who", "An English rock band."),
    Passage("AC/DC", "An Australian rock band; it's loud."),
    Passage("Alû", "A demon of the night."),
]


def searcher(folder: Path, passages: list[Passage] = PASSAGES, stemmer: bool = False) -> Searcher:
    source = Source("here", lambda: ((f"passage {number}", passage) for number, passage in enumerate(passages)))
    build_index(source, [TantivyPart(stemmer)], folder)
    return open_folder(folder, "tantivy")


def titles(searcher: Searcher, query: str, top_k: int = 1) -> list[str]:
    (hits,) = searcher.search([query], top_k)
    return [hit.passage.title for hit in hits]


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("capital of France", "France"),
        ("RHONE", "Lyon"),
        ("alu", "Alû"),
        ("the who", "The Who"),
        ('it\'s "AC/DC"?', "AC/DC"),
        ("text:AC -text:DC AND (", "AC/DC"),
        ("number:3 OR demon*", "Alû"),
    ],
)
def test_a_query_is_text_whatever_its_signs(tmp_path: Path, query: str, title: str) -> None:
    assert titles(searcher(tmp_path / "index"), query) == [title]


def test_several_queries_scores_facts_and_nothing_found(tmp_path: Path) -> None:
    found = searcher(tmp_path / "index")
    bands, nothing, signs = found.search(["Australian rock band", "zzqq", "?!"], 2)
    assert [hit.passage for hit in bands] == [PASSAGES[3], PASSAGES[2]]
    assert bands[0].score > bands[1].score > 0
    assert nothing == signs == []
    assert titles(found, "bands") == [], "stems match only where asked for"
    assert titles(searcher(tmp_path / "stems", stemmer=True), "nights") == ["Alû"]
    twins = [Passage(f"{name} town", "A quiet place.") for name in ("Cy", "Ab", "Bo")]
    assert titles(searcher(tmp_path / "twins", twins), "town", 3) == ["Cy town", "Ab town", "Bo town"]
    facts = {"passages": 5, "corpus": "here", "hash": corpus_hash(PASSAGES), "backend": "tantivy"}
    assert found.facts() == facts


def test_an_index_in_a_cache_of_links_is_read_but_no_lock_is_made_through_a_link(tmp_path: Path) -> None:
    searcher(tmp_path / "blobs")
    assert titles(open_folder(_links(tmp_path / "snapshot", tmp_path / "blobs"), "tantivy"), "capital of France") == [
        "France"
    ]
    manifest = json.loads((tmp_path / "blobs" / FILE).read_text())
    manifest["files"] = {name: facts for name, facts in manifest["files"].items() if not name.endswith(".lock")}
    (tmp_path / "blobs" / FILE).write_text(json.dumps(manifest))
    for name in (".tantivy-meta.lock", ".tantivy-writer.lock"):
        snapshot = _links(tmp_path / f"snapshot{name}", tmp_path / "blobs")
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


@pytest.mark.real_data
def test_real_questions_find_the_same_as_in_memory(real_data: Path, tmp_path: Path) -> None:
    path = real_data / "2wikimultihopqa_corpus.json"
    build_index(file_source(path), [TantivyPart()], tmp_path / "index")
    on_disk = open_folder(tmp_path / "index", "tantivy")
    in_memory: Any = open_bm25(read_corpus(str(path)), Words(stemmer=False), str(tmp_path), "")
    assert on_disk.facts()["hash"] == in_memory.facts()["hash"]
    questions = [record["question"] for record in json.loads((real_data / "hotpotqa_100.json").read_text())]
    shares = []
    for one, other in zip(on_disk.search(questions, 10), in_memory.search(questions, 10), strict=True):
        passages = {hit.passage for hit in one}
        shares.append(len(passages & {hit.passage for hit in other}) / 10)
    assert sum(shares) / len(shares) > 0.9
