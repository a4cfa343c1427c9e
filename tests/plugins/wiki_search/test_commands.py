"""The commands that build, ask and measure an index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_r1_wiki_search.commands import bench, build, query
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
        ("build broken.jsonl x --backend dense --model ./no", 1, "no encoder at ./no"),
        ("query index ", 2, "the question is empty"),
    ],
)
@pytest.mark.usefixtures("_tantivy")
def test_a_failure_is_one_sentence_and_an_exit_code(
    agent_r1: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, code: int, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.jsonl").write_text("{")
    done = agent_r1("wiki", *words.split(" "))
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr.startswith("error: ")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
