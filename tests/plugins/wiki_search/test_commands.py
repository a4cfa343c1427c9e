"""Corpora, the cache of answers, and the commands of the plugin."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from agent_r1_wiki_search.commands import bench, build, query
from agent_r1_wiki_search.corpus import stream_corpus
from agent_r1_wiki_search.remote import AnswerCache
from agent_r1_wiki_search.searcher import Hit
from agent_r1_wiki_search.serve_command import serve

from agent_r1_core import Passage
from agent_r1_core.testing import CommandContract


class TestCommands(CommandContract):
    components = (build, serve, query, bench)


@pytest.mark.usefixtures("_tantivy")
def test_an_index_is_built_queried_and_measured(agent_r1: Any, tmp_path: Path, write_corpus: Any) -> None:
    corpus = write_corpus([Passage("Oslo", "The capital of Norway."), Passage("Lyon", "A city.")])
    done = agent_r1("wiki", "build", corpus, tmp_path / "index")
    assert done.exit_code == 0, done.stderr
    assert f"{tmp_path}/index: 2 passages for tantivy" in done.stdout
    assert done.stderr == "", "nothing took long"
    shown = agent_r1("wiki", "query", tmp_path / "index", "Norway's capital?")
    assert shown.stdout.endswith("  Oslo\nThe capital of Norway.\n")
    answer = json.loads(agent_r1("wiki", "query", tmp_path / "index", "Norway", "--json").stdout)
    assert [hit["title"] for hit in answer["hits"]] == ["Oslo"]
    assert answer["facts"]["corpus"] == str(corpus)
    measured = agent_r1("wiki", "bench", tmp_path / "index").stdout
    assert "own passage among the first 10       100.0%" in measured


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("build broken.jsonl index", 1, "line 1 of"),
        ("query index x", 1, "there is no index in"),
        ("query broken.jsonl x", 1, "broken.jsonl is a file, not an index folder; if it is a corpus,"),
        ("bench broken.jsonl", 1, "wiki build broken.jsonl INDEX`, and give that"),
        ("build broken.csv.gz index", 1, "is not one of .json, .jsonl, .jsonl.gz, .parq"),
        ("build broken.jsonl x --backend dense --model ./no", 1, "no encoder at ./no"),
        ("query index ", 2, "the question is empty"),
    ],
)
@pytest.mark.usefixtures("_tantivy")
def test_a_failure_is_one_sentence_and_an_exit_code(
    agent_r1: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, code: int, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("broken.jsonl", "broken.csv.gz"):
        Path(name).write_text("{")
    done = agent_r1("wiki", *words.split(" "))
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr.startswith("error: ")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def hits(count: int) -> list[Hit]:
    return [Hit(Passage(str(number), ""), 1.0) for number in range(count)]


def test_what_was_used_last_stays_and_is_known_by_query_and_number_of_passages() -> None:
    cache = AnswerCache(5)
    for _ in range(5):  # what is put again counts once
        cache.put("a", 2, hits(2))
    cache.put("b", 2, hits(2))
    assert cache.get("a", 2) == hits(2)
    assert cache.get("a", 3) is None
    cache.put("c", 2, hits(2))
    assert [cache.get(query, 2) for query in "abc"] == [hits(2), None, hits(2)]
    cache.put("large", 6, hits(6))
    assert [cache.get("large", 6), cache.get("c", 2)] == [None, hits(2)], "what is too large drops nothing"
    cache.put("empty", 2, [])
    assert cache.get("empty", 2) == []
    nothing = AnswerCache(0)
    nothing.put("a", 1, [])
    assert nothing.get("a", 1) is None


def test_threads_share_it() -> None:
    cache, queries = AnswerCache(20), [f"{name} {number}" for name in "abcd" for number in range(7)]

    def use(query: str) -> str:
        cache.put(query, 1, [Hit(Passage(query, ""), 1.0)])
        found = cache.get(query, 1)
        return found[0].passage.title if found else query

    with ThreadPoolExecutor() as threads:
        assert list(threads.map(use, queries * 70)) == queries * 70
    assert sum(cache.get(query, 1) is not None for query in queries) == 20


def test_an_object_of_titles_with_their_sentences_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "corpus.json")
    Path(path).write_text(json.dumps({"Lyon": ["It is large.", " It lies on the Rhône."], "Alû": ["A demon."]}))
    assert list(stream_corpus(path)) == [
        (f"record 1 of {path}", Passage("Lyon", "It is large. It lies on the Rhône.")),
        (f"record 2 of {path}", Passage("Alû", "A demon.")),
    ]
