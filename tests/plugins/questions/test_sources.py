"""The task sources of questions keep their contract, each names the one that reads a file, and Bamboogle is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_r1_questions.bamboogle import Bamboogle
from agent_r1_questions.hotpotqa import HotpotQA
from agent_r1_questions.musique import MuSiQue
from agent_r1_questions.qa import QA
from agent_r1_questions.two_wiki import TwoWikiMultihopQA

from agent_r1_core import TaskError
from agent_r1_core.testing import TaskSourceContract

QUESTION = {"question": "Who directed Karimo?", "answer": "Vesano"}
HOTPOT_RECORD = QUESTION | {
    "id": "2hop__1_2",
    "type": "bridge",
    "context": [["Karimo", ["A film by Vesano."]]],
    "supporting_facts": [["Karimo", 0]],
}
RECORDS: dict[str, dict[str, Any]] = {
    "hotpotqa": HOTPOT_RECORD,
    "2wikimultihopqa": HOTPOT_RECORD | {"evidences": [["Karimo", "director", "Vesano"]]},
    "musique": QUESTION
    | {
        "id": "2hop__1_2",
        "paragraphs": [{"title": "Karimo", "paragraph_text": "A film by Vesano.", "is_supporting": True}],
        "question_decomposition": [],
        "answer_aliases": ["the Old"],
    },
    "bamboogle": {"Question": "Who directed Karimo?", "Answer": "Vesano"},
    "qa": QUESTION | {"id": "1", "golden_answers": ["Vesano"]},
}


class TestHotpotQA(TaskSourceContract):
    component = HotpotQA

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        path = tmp_path / "hotpot.json"
        path.write_text(json.dumps([RECORDS["hotpotqa"] | {"id": name} for name in ("5a", "5b")]), encoding="utf-8")
        self.config = {"path": str(path)}


class TestTwoWikiMultihopQA(TaskSourceContract):
    component = TwoWikiMultihopQA

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        path, aliases = tmp_path / "dev.json", tmp_path / "id_aliases.json"
        path.write_text(json.dumps([RECORDS["2wikimultihopqa"] | {"answer_id": "Q90"}]), encoding="utf-8")
        lines = [{"Q_id": name, "aliases": ["City of Light"], "demonyms": []} for name in ("Q90", "Q91")]
        aliases.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        self.config = {"path": str(path), "aliases": str(aliases)}


class TestMuSiQue(TaskSourceContract):
    component = MuSiQue

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        path = tmp_path / "musique.jsonl"
        lines = [RECORDS["musique"] | {"id": name, "answerable": name != "b"} for name in ("2hop__1_2", "b")]
        path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        self.config = {"path": str(path), "unanswerable": "skip"}


class TestBamboogle(TaskSourceContract):
    component = Bamboogle

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        path = tmp_path / "Bamboogle.csv"
        path.write_text('Question,Answer\n"Who, then?",Karimo\nWhere?,Tavelo\n', encoding="utf-8")
        self.config = {"path": str(path)}


class TestQA(TaskSourceContract):
    component = QA

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        path = tmp_path / "own.jsonl"
        path.write_text('{"question": "Who?", "answer": "Karimo"}\n{"question": "Where?", "answers": ["Tavelo"]}')
        self.config = {"path": str(path), "size": 2, "sample": "random", "seed": 3}


LINES = 'Question,Answer\n"When was Karimo, the film, shown?",3 May 1997\nWho wrote it?,"Vesano"\nWhere?,Tavelo\n'


def source(folder: Path, text: str, **options: int) -> Bamboogle:
    path = folder / "Bamboogle Prerelease - Sheet1.csv"
    path.write_text(text, encoding="utf-8")
    return Bamboogle(Bamboogle.Config(path=str(path), **options))


def test_a_line_gives_a_task_of_two_hops_without_a_corpus(tmp_path: Path) -> None:
    bamboogle = source(tmp_path, LINES)
    tasks = bamboogle.load()
    assert tasks[0].prompt == "When was Karimo, the film, shown?"
    assert [(task.id, *task.answers) for task in tasks] == [
        ("bamboogle.0", "3 May 1997"),
        ("bamboogle.1", "Vesano"),
        ("bamboogle.2", "Tavelo"),
    ]
    assert all(task.metadata == {"hops": 2} for task in tasks)
    assert bamboogle.corpus() is None
    assert source(tmp_path, LINES, offset=1, size=1).load() == tasks[1:2], "an id is a place in the file"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Question,Answer\nWho?,\n", "line 2 of .* has no 'Answer'"),
        ("Question;Answer\nWho?;Vesano\n", r"line 2 of .* has no text under 'Question' \(it has keys \['Question;"),
        ("Question,Answer\nWho?,Vesano,of Tavelo\n", "line 2 of .* has 3 values, but the first line names 2"),
        ('Question,Answer\nWho?,"Vesano\n', r"line 2 of .* is not CSV \(unexpected end of data\); repair it"),
        ("Question,Answer\n", "holds no record"),
    ],
)
def test_a_broken_file_gives_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(TaskError, match=sentence):
        source(tmp_path, text).load()


SOURCES = {source.format: source for source in (HotpotQA, TwoWikiMultihopQA, MuSiQue, Bamboogle)}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("format_", RECORDS)
def test_a_source_names_the_one_that_reads_a_file(tmp_path: Path, name: str, format_: str) -> None:
    path = tmp_path / "file.jsonl"
    path.write_text(json.dumps(RECORDS[format_]))
    source = SOURCES[name](SOURCES[name].Config(path=str(path)))
    if name == format_:
        assert [task.answers[0] for task in source.load()] == ["Vesano"]
        return
    sentence = f"line 1 of {path} has the format of {format_}, .* read it by the task source {format_}$"
    for read in (source.load, source.corpus):
        with pytest.raises(TaskError, match=sentence):
            read()
