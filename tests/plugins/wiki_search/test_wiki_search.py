from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest
from agent_r1_wiki_search import bm25 as bm25_module
from agent_r1_wiki_search.tool import WikiSearch

from agent_r1_core import ConfigError, Passage, TaskError, ToolError, ToolResources
from agent_r1_core.testing import ToolContract


class TestWikiSearch(ToolContract):
    component = WikiSearch
    arguments: ClassVar = {"query": "Karimo"}
    expected = "Karimo\nKarimo is a city."
    refused: ClassVar = {"query": " "}
    corpus = (Passage("Karimo", "Karimo is a city."), Passage("Belu", "Belu is a film."))


@pytest.fixture
def opened(opened: Any, words: list[Passage]) -> Callable[..., WikiSearch]:
    """`opened(passages, **options)`: the tool, by default with `words`."""
    return lambda passages=words, **options: opened(passages, **options)


def run(tool: WikiSearch, query: str | list[str]) -> str:
    context: Any = None
    return tool.run(WikiSearch.Arguments(query=query), context)


@pytest.fixture(params=["bm25", "tantivy"])
def backend(request: pytest.FixtureRequest) -> str:
    """What finds words."""
    if request.param == "tantivy":
        request.getfixturevalue("_tantivy")
    return str(request.param)


def test_passages_are_titles_with_texts_and_several_queries_get_a_heading_each(opened: Any) -> None:
    tool = opened()
    assert run(tool, "capital of France") == "France\nFrance is a country. Its capital is Paris."
    assert run(tool, "zzqq") == run(tool, "?!") == "No passage found."
    assert run(tool, ["Lyon", "unheard-of"]) == (
        'Results for "Lyon":\nLyon\nLyon is a city in France, on the Rhône.\n\n'
        'Results for "unheard-of":\nNo passage found.'
    )
    blocks = run(opened(top_k=100, max_characters=14), "France").split("\n\n")
    assert blocks == ["France\nFrance is a co ...", "Lyon\nLyon is a city ..."]
    assert run(opened([Passage("?", "!")]), "Paris") == "No passage found."
    with pytest.raises(ToolError, match="is not open"):
        WikiSearch().search("Lyon")


def test_words_are_found_whatever_their_accents_and_case_and_by_their_stems_where_asked_for(
    opened: Any, backend: str
) -> None:
    tool = opened(backend=backend)
    for query, title in (("alu", "Alû"), ("RHONE", "Lyon"), ("the who", "The Who"), ("be with it", "Be With It")):
        assert run(tool, query).startswith(title)
    assert run(opened(backend=backend), "bands") == "No passage found."
    assert run(opened(backend=backend, stemmer=True), "demons").startswith("Alû")
    twins = [Passage(f"{name} town", "A quiet place.") for name in ("Cy", "Ab", "Bo")]
    found = opened(twins, backend=backend).search("town", 3)
    assert [passage.title for passage in found] == ["Cy town", "Ab town", "Bo town"]


def test_a_useless_query_is_told_to_the_model(opened: Any) -> None:
    refused = {"0 queries were given": [], "9 queries": ["a"] * 9, "query is empty": ["a", ""]}
    for sentence, query in (refused | {"200000 characters; give at most 2000": "Lyon " * 40_000}).items():
        with pytest.raises(ToolError, match=sentence):
            run(opened(), query)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("corpus.jsonl", '{"contents": "Oslo"}', "no text after the title"),
        ("corpus.json", '{"Lyon": ["It is large.", 3]}', "one JSON object, not a list of records; give a list of obj"),
        ("corpus.json", json.dumps([{f"T {number:04}" * 9: [] for number in range(2000)}]), " and 1992 more.; give a"),
    ],
)
def test_a_malformed_corpus_file_is_told_in_a_few_words(
    opened: Any, tmp_path: Path, name: str, content: str, sentence: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(TaskError, match=sentence) as refusal:
        opened(corpus=str(tmp_path / name))
    assert len(str(refusal.value)) < 800


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("corpus.jsonl", '{"title": "Oslo", "text": "In Norway."}\n{"title": "Oslo", "text": "In Norway."}'),
        ("corpus.jsonl", '{"id": "0", "contents": "\\"Oslo\\"\\nIn Norway."}'),
        ("corpus.json", '[{"title": "Oslo", "text": "In Norway."}]'),
        ("corpus.csv", "title,text\nOslo,In Norway.\n"),
        ("corpus.json", '{"Oslo": ["In", " Norway."]}'),
    ],
)
def test_a_corpus_file_takes_the_place_of_the_task_source(opened: Any, tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    tool = opened(corpus=str(tmp_path / name), top_k=5)
    assert run(tool, "Oslo Norway Lyon") == "Oslo\nIn Norway."


def test_the_corpus_of_the_tasks_at_hand_or_another_one_by_name(tmp_path: Path, words: Any) -> None:
    corpora = {"train": lambda: words[:2], "eval": lambda: words[1:3], "x": lambda: None}

    def titles(source: str, own: str | None = None) -> set[str]:
        tool = WikiSearch(WikiSearch.Config(source=source, top_k=10))
        tool.open(ToolResources(str(tmp_path), corpora, own))
        assert set(tool.other_corpora()) == {source} - {"auto"}
        return {found.title for found in tool.search("lyon france who")}

    assert titles("auto") == {"Lyon", "France", "The Who"}
    assert titles("auto", own="eval") == titles("eval", own="train") == {"France", "The Who"}
    with pytest.raises(ConfigError, match="source=test but the corpora here are: eval, train, x"):
        titles("test")
    for none in ({}, {"train": lambda: None}, {"train": lambda: []}):
        with pytest.raises(ConfigError, match=r"set its option corpus to a file .* \(qa reads .* passages or ctxs\)"):
            WikiSearch().open(ToolResources(str(tmp_path), none))


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """One entry for each index that is built rather than loaded."""
    built, build = [], bm25_module._build
    monkeypatch.setattr(bm25_module, "_build", lambda *arguments: [built.append(1), build(*arguments)][1])
    return built


def test_an_index_is_built_once_per_corpus_and_options(opened: Any, words: Any, builds: list[Any]) -> None:
    first, again = opened(), opened(top_k=3)
    assert len(builds) == 1
    assert run(first, "Paris") == run(again, "Paris").split("\n\n")[0]
    opened(stemmer=True)
    opened(words[1:])
    assert len(builds) == 3


def test_a_damaged_cache_is_built_again(opened: Any, tmp_path: Path, builds: list[Any]) -> None:
    expected = run(opened(), "Paris")
    (folder,) = (tmp_path / "cache" / "wiki_search").iterdir()
    files = sorted(folder.iterdir())
    for file in files:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0xFF
        file.write_bytes(bytes(content))
        assert run(opened(), "Paris") == expected
    assert len(builds) == 1 + len(files)
    assert list((tmp_path / "cache" / "wiki_search").iterdir()) == [folder]


def test_a_cache_that_cannot_be_written_only_costs_time(
    opened: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    assert run(opened(), "Paris").startswith("France")
    assert "is not cached" in caplog.text


def test_threads_search_at_once_and_get_their_own_answers(opened: Any) -> None:
    tool = opened(stemmer=True)
    titles = {"demons of nights": "Alû", "cities": "Lyon", "countries": "France", "rocks bands": "The Who"}
    with ThreadPoolExecutor() as threads:
        found = list(threads.map(lambda query: run(tool, query), list(titles) * 200))
    assert [text.partition("\n")[0] for text in found] == list(titles.values()) * 200


def test_jax_is_left_alone(tmp_path: Path) -> None:
    """bm25s calls it where it is installed, and it takes most of a GPU's memory then."""
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("")
    (tmp_path / "jax" / "lax.py").write_text("def top_k(*given): raise SystemExit('JAX was asked')")
    search = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import jax
from agent_r1_wiki_search.bm25 import Words
print(Words(False).of_query("the river"), sys.modules["bm25s"].selection.JAX_IS_AVAILABLE, sys.modules["jax"] is jax)
"""
    done = subprocess.run([sys.executable, "-c", search], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("['river'] False True\n", "")
