"""The plugin's own commands, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_r1_wiki_search.commands import bench, build, query
from agent_r1_wiki_search.serve_command import serve

from agent_r1_core import Passage
from agent_r1_core.testing import CommandContract


class TestBuild(CommandContract):
    component = build


class TestServe(CommandContract):
    component = serve


class TestQuery(CommandContract):
    component = query


class TestBench(CommandContract):
    component = bench


def command(*words: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    line = [sys.executable, "-m", "agent_r1_cli", "wiki", *map(str, words)]
    return subprocess.run(line, env=environment, capture_output=True, text=True)


@pytest.mark.usefixtures("_tantivy")
def test_an_index_is_built_queried_and_measured(tmp_path: Path, write_corpus: Any) -> None:
    corpus = write_corpus([Passage("Oslo", "The capital of Norway."), Passage("Lyon", "A city.")])
    done = command("build", corpus, tmp_path / "index")
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path}/index: 2 passages for tantivy" in done.stdout
    assert done.stderr == "", "nothing took long"
    shown = command("query", tmp_path / "index", "Norway's capital?")
    assert shown.stdout.endswith("  Oslo\nThe capital of Norway.\n")
    answer = json.loads(command("query", tmp_path / "index", "Norway", "--json").stdout)
    assert [hit["title"] for hit in answer["hits"]] == ["Oslo"]
    assert answer["facts"]["corpus"] == str(corpus)
    measured = command("bench", tmp_path / "index").stdout
    assert "own passage among the first 10       100.0%" in measured


@pytest.mark.usefixtures("_tantivy")
def test_failures_are_one_sentence_and_an_exit_code(tmp_path: Path, write_corpus: Any) -> None:
    for name in ("broken.jsonl", "broken.csv.gz"):
        (tmp_path / name).write_text("{")
    for words, code, sentence in (
        (("build", tmp_path / "broken.jsonl", tmp_path / "index"), 1, "line 1 of"),
        (("query", tmp_path / "index", "x"), 1, "there is no index in"),
        (
            ("query", tmp_path / "broken.jsonl", "x"),
            1,
            "broken.jsonl is a file, not an index folder; if it is a corpus,",
        ),
        (("bench", tmp_path / "broken.jsonl"), 1, f"wiki build {tmp_path}/broken.jsonl INDEX`, and give that"),
        (("build", tmp_path / "broken.csv.gz", tmp_path / "index"), 1, "is not one of .json, .jsonl, .jsonl.gz, .parq"),
        (("build", tmp_path / "broken.jsonl", "x", "--backend", "dense", "--model", "./no"), 1, "no encoder at ./no"),
        (("query", tmp_path / "index", " "), 2, "the question is empty"),
    ):
        done = command(*words)
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr.startswith("error: ")
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1
