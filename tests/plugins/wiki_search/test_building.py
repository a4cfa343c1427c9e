"""Indexes are built whole or not at all, and continued after whatever stopped them."""

from __future__ import annotations

import json
import resource
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from agent_r1_wiki_search import passages as passages_module
from agent_r1_wiki_search.building import build_index, file_source
from agent_r1_wiki_search.corpus import corpus_hash
from agent_r1_wiki_search.folder import open_folder
from agent_r1_wiki_search.manifest import FILE, Manifest
from agent_r1_wiki_search.passages import Passages
from agent_r1_wiki_search.tantivy_part import TantivyPart
from agent_r1_wiki_search.tool import WikiSearch

from agent_r1_core import ConfigError, Passage, TaskError

from .conftest import killed

pytestmark = pytest.mark.usefixtures("_tantivy")


def numbered(count: int) -> list[Passage]:
    return [Passage(f"Town {number}", f"A place of kind {number % 7}, founded {number}.") for number in range(count)]


def built(corpus: Path, stemmer: bool = False) -> tuple[Path, list[str]]:
    """The index of a corpus, and what was said."""
    said: list[str] = []
    target = corpus.with_name("index")
    build_index(file_source(corpus), [TantivyPart(stemmer)], target, said.append)
    return target, said


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "moments", [[("reading", 0.5)], [("indexing words", 0.9), ("indexing words", 0.98)], [("publishing", 1)]]
)
def test_a_killed_build_is_invisible_and_goes_on_where_it_stopped(
    tmp_path: Path, write_corpus: Any, monkeypatch: pytest.MonkeyPatch, moments: list[tuple[str, float]]
) -> None:
    towns = numbered(5000)
    corpus = write_corpus(towns)
    for moment in moments:
        killed(corpus, *moment)
        assert names(tmp_path) == {"corpus.jsonl", ".index.building"}
    monkeypatch.setattr(passages_module, "MOST_PASSAGES", 1000)
    shards = tmp_path / ".index.building" / "passages"
    before = {file: file.stat().st_ino for file in shards.glob("*.arrow")}
    assert len(before) >= 2
    folder, _ = built(corpus)
    assert names(tmp_path) == {"corpus.jsonl", "index"}
    assert {folder / "passages" / file.name: inode for file, inode in before.items()}.items() <= {
        file: file.stat().st_ino for file in (folder / "passages").glob("*.arrow")
    }.items(), "finished files are kept"
    assert list(Passages(folder / "passages")) == towns
    assert Manifest.read(folder).hash == corpus_hash(towns)
    searcher = open_folder(folder, "tantivy")
    for number in (0, 1999, 2000, 4000, 4999):
        (hits,) = searcher.search([f"town {number} founded"], 5)
        assert [hit.passage for hit in hits][:1] == [towns[number]]
        assert sum(hit.passage == towns[number] for hit in hits) == 1


def test_a_corpus_that_was_repaired_keeps_what_stands_before_the_fault(
    tmp_path: Path, write_corpus: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passages_module, "MOST_PASSAGES", 10)
    towns = numbered(40)
    corpus = write_corpus(towns)
    lines = corpus.read_text().splitlines()
    corpus.write_text("\n".join([*lines[:25], '{"title": "Town 25"}', *lines[26:]]))
    said: list[str] = []
    with pytest.raises(TaskError, match=r"line 26 of .*corpus\.jsonl has no text under 'text'"):
        build_index(file_source(corpus), [TantivyPart()], tmp_path / "index", said.append)
    assert said == [f"what is finished is kept in {tmp_path}/.index.building; the same command continues there"]
    finished = {file.name: file.stat().st_ino for file in (tmp_path / ".index.building" / "passages").iterdir()}
    assert set(finished) == {"00000.arrow", "00001.arrow"}
    write_corpus(towns)
    folder, _ = built(corpus)
    assert finished.items() <= {file.name: file.stat().st_ino for file in (folder / "passages").iterdir()}.items()
    assert list(Passages(folder / "passages")) == towns


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", r"corpus\.jsonl holds no record"),
        ('{"title": "A", "text": "a"}\n{"title": ', r"line 2 of .*corpus\.jsonl is not JSON"),
        ('{"text": "a"}', r"line 1 of .*corpus\.jsonl has no text under 'title'"),
        ('{"title": "A", "text": " "}', r"line 1 of .*corpus\.jsonl has an empty 'text'; fill it in"),
    ],
)
def test_a_faulty_corpus_is_one_sentence_and_leaves_nothing(tmp_path: Path, content: str, sentence: str) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(content)
    with pytest.raises(TaskError, match=sentence):
        built(corpus)
    assert names(tmp_path) == {"corpus.jsonl"}
    with pytest.raises(TaskError, match="there is no corpus at"):
        built(tmp_path / "absent.jsonl")


def test_a_folder_of_files_is_one_corpus(tmp_path: Path, write_corpus: Any) -> None:
    towns = numbered(6)
    (tmp_path / "parts" / "more").mkdir(parents=True)
    write_corpus(towns[:2], "parts/a.jsonl")
    rows = pyarrow.Table.from_pylist([asdict(town) for town in towns[2:4]])
    pyarrow.parquet.write_table(rows, tmp_path / "parts" / "b.parquet")
    write_corpus(towns[4:], "parts/more/c.jsonl")
    (tmp_path / "parts" / ".notes").write_text("no passages")
    folder, _ = built(tmp_path / "parts")
    assert list(Passages(folder / "passages")) == towns
    (tmp_path / "empty").mkdir()
    with pytest.raises(TaskError, match="empty holds no record"):
        build_index(file_source(tmp_path / "empty"), [TantivyPart()], tmp_path / "other")


def test_repeated_passages_are_left_out_and_counted(write_corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passages_module, "MOST_PASSAGES", 4)
    towns = numbered(6)
    corpus = write_corpus([*towns[:3], towns[0], *towns[1:], towns[5]])
    folder, said = built(corpus)
    assert list(Passages(folder / "passages")) == towns
    assert said == [f"4 repeated passages are left out; the first is line 4 of {corpus}"]
    manifest = Manifest.read(folder)
    assert (manifest.passages, manifest.repeated, manifest.hash) == (6, 4, corpus_hash(towns))


def test_another_build_with_other_options_is_not_continued(write_corpus: Any) -> None:
    corpus = write_corpus(numbered(3000))
    killed(corpus, "indexing words", 0.5)
    with pytest.raises(ConfigError, match=r"has other options .stemmer False, not True.; give the same ones"):
        built(corpus, stemmer=True)
    assert built(corpus)[0].is_dir()
    with pytest.raises(ConfigError, match="index exists; name a folder that does not"):
        built(corpus)


def test_two_processes_do_not_build_one_index(tmp_path: Path, write_corpus: Any) -> None:
    source = file_source(write_corpus(numbered(3)))

    class Meanwhile(TantivyPart):
        def build(self, *arguments: Any) -> dict[str, Any]:
            with pytest.raises(TaskError, match=r"another process builds .*index; wait for it"):
                build_index(source, [TantivyPart()], tmp_path / "index")
            return super().build(*arguments)

    build_index(source, [Meanwhile()], tmp_path / "index")
    assert open_folder(tmp_path / "index", "tantivy").facts()["passages"] == 3


def test_a_file_that_must_not_grow_is_one_sentence(tmp_path: Path, write_corpus: Any) -> None:
    before, corpus = resource.getrlimit(resource.RLIMIT_FSIZE), write_corpus(numbered(20_000))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(TaskError, match=r"cannot be written .File too large.; free space"):
            built(corpus)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names(tmp_path) == {"corpus.jsonl"}


def test_damage_and_what_the_index_was_not_built_for_are_seen_when_it_is_opened(write_corpus: Any) -> None:
    folder, _ = built(write_corpus(numbered(50)))
    open_folder(folder, "tantivy")
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size):
        content = file.read_bytes()
        broken = bytearray(content)
        broken[len(broken) // 2] ^= 0xFF
        for damaged in (bytes(broken), content[:-1]):
            file.write_bytes(damaged)
            with pytest.raises(TaskError, match=r"is damaged: .*; build|cannot be read .*; build"):
                open_folder(folder, "tantivy")
        file.write_bytes(content)
    with pytest.raises(ConfigError, match="was built for tantivy, not for dense; give backend tantivy"):
        open_folder(folder, "dense")
    with pytest.raises(ConfigError, match="was built for tantivy, not for dense; give backend tantivy"):
        WikiSearch(WikiSearch.Config(backend="dense", index=str(folder))).check_data()
    (folder / "tantivy" / "meta.json").unlink()
    with pytest.raises(TaskError, match=r"meta\.json is missing"):
        open_folder(folder, "tantivy")
    with pytest.raises(TaskError, match=r"there is no index in .*; build one with `agent-r1 wiki build`"):
        open_folder(folder / "tantivy", "tantivy")
    manifest = json.loads((folder / FILE).read_text())
    (folder / FILE).write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(TaskError, match="has format 99, not 1; build it again"):
        open_folder(folder, "tantivy")
