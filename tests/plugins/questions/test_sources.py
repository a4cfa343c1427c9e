"""Sources of questions keep their contract and name the one that reads a file; Bamboogle; the keys that `qa` reads."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, ClassVar

import pyarrow
import pyarrow.parquet
import pytest
from agent_r1_questions.bamboogle import Bamboogle
from agent_r1_questions.hotpotqa import HotpotQA
from agent_r1_questions.musique import MuSiQue
from agent_r1_questions.qa import QA
from agent_r1_questions.two_wiki import TwoWikiMultihopQA

from agent_r1_core import Passage, TaskError
from agent_r1_core.testing import TaskSourceContract

QUESTION = {"question": "Who directed Karimo?", "answer": "Vesano"}
HOTPOT_RECORD = QUESTION | {"id": "2hop__1_2", "type": "bridge", "supporting_facts": [["Karimo", 0]]}
HOTPOT_RECORD |= {"context": [["Karimo", ["A film by Vesano."]]]}
RECORDS: dict[str, dict[str, Any]] = {
    "hotpotqa": HOTPOT_RECORD,
    "2wikimultihopqa": HOTPOT_RECORD | {"evidences": [["Karimo", "director", "Vesano"]]},
    "musique": {
        **QUESTION,
        "id": "2hop__1_2",
        "question_decomposition": [],
        "answer_aliases": ["the Old"],
        "paragraphs": [{"title": "Karimo", "paragraph_text": "A film by Vesano.", "is_supporting": True}],
    },
    "bamboogle": {"Question": "Who directed Karimo?", "Answer": "Vesano"},
    "qa": QUESTION | {"id": "1", "golden_answers": ["Vesano"]},
}


class TestHotpotQA(TaskSourceContract):
    component = HotpotQA
    file = ("hotpot.json", *(RECORDS["hotpotqa"] | {"id": name} for name in ("5a", "5b")))


class TestTwoWikiMultihopQA(TaskSourceContract):
    component = TwoWikiMultihopQA
    file = ("dev.json", RECORDS["2wikimultihopqa"] | {"answer_id": "Q90"})

    @pytest.fixture(autouse=True)
    def _aliases(self, records: Any, _file: None) -> None:
        names = ({"Q_id": name, "aliases": ["City of Light"], "demonyms": []} for name in ("Q90", "Q91"))
        self.config = {**self.config, "aliases": records("id_aliases.jsonl", *names)}


class TestMuSiQue(TaskSourceContract):
    component = MuSiQue
    file = ("musique.jsonl", *(RECORDS["musique"] | {"id": i, "answerable": i != "b"} for i in ("2hop__1_2", "b")))
    config: ClassVar = {"unanswerable": "skip"}


class TestBamboogle(TaskSourceContract):
    component = Bamboogle
    file = ("Bamboogle.csv", 'Question,Answer\n"Who, then?",Karimo\nWhere?,Tavelo\n')


class TestQA(TaskSourceContract):
    component = QA
    file = ("own.jsonl", {"question": "Who?", "answer": "Karimo"}, {"question": "Where?", "answers": ["Tavelo"]})
    config: ClassVar = {"size": 2, "sample": "random", "seed": 3}


LINES = 'Question,Answer\n"When was Karimo, the film, shown?",3 May 1997\nWho wrote it?,"Vesano"\nWhere?,Tavelo\n'


def test_a_line_gives_a_task_of_two_hops_without_a_corpus(source: Any) -> None:
    name = "Bamboogle Prerelease - Sheet1.csv"
    bamboogle = source(Bamboogle, name, LINES)
    tasks = bamboogle.load()
    assert tasks[0].prompt == "When was Karimo, the film, shown?"
    answers = {"bamboogle.0": ("3 May 1997",), "bamboogle.1": ("Vesano",), "bamboogle.2": ("Tavelo",)}
    assert {task.id: task.answers for task in tasks} == answers
    assert all(task.metadata == {"hops": 2} for task in tasks)
    assert bamboogle.corpus() is None
    assert source(Bamboogle, name, LINES, offset=1, size=1).load() == tasks[1:2], "an id is a place in the file"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Question;Answer\nWho?;Vesano\n", r"line 2 of .* has no text under 'Question' \(it has keys \['Question;"),
        ("Question,Answer\nWho?,Vesano,of Tavelo\n", "line 2 of .* has 3 values, but the first line names 2"),
        ('Question,Answer\nWho?,"Vesano\n', r"line 2 of .* is not CSV \(unexpected end of data\); repair it"),
    ],
)
def test_a_broken_file_gives_one_sentence(source: Any, text: str, sentence: str) -> None:
    with pytest.raises(TaskError, match=sentence):
        source(Bamboogle, "Bamboogle.csv", text).load()


SOURCES = {source.format: source for source in (HotpotQA, TwoWikiMultihopQA, MuSiQue, Bamboogle)}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("format_", RECORDS)
def test_a_source_names_the_one_that_reads_a_file(source: Any, name: str, format_: str) -> None:
    reading = source(SOURCES[name], "file.jsonl", RECORDS[format_])
    if name == format_:
        assert [task.answers[0] for task in reading.load()] == ["Vesano"]
        return
    sentence = f"line 1 of {reading.config.path} has the format of {format_}, .* read it by the task source {format_}$"
    for read in (reading.load, reading.corpus):
        with pytest.raises(TaskError, match=sentence):
            read()


FULL = {
    "id": 17,
    "question": "Who directed Karimo?",
    "hops": 2,
    "type": "bridge",
    "level": "hard",
    "golden_answers": ["Vesano", "Vesano I"],
    "aliases": ["Vesano", "the Old"],
    "path": ["Karimo", "Vesano"],
    "passages": [{"title": "Karimo", "text": "A film by Vesano."}, {"title": "Boru", "text": "A river."}],
    "metadata": {"anything": 1},
}


def test_a_question_and_an_answer_are_enough_and_everything_else_that_a_record_tells_is_kept(
    source: Any, tmp_path: Path
) -> None:
    qa = source(QA, "own.jsonl", QUESTION, QUESTION | {"answer": 42})
    first, second = qa.load()
    assert (first.id, first.prompt, first.answers, first.metadata) == ("own.0", QUESTION["question"], ("Vesano",), {})
    assert (second.id, second.answers) == ("own.1", ("42",))
    assert qa.corpus() is None
    with pytest.raises(TaskError, match="no data set is named; set path to a file or folder, or hub"):
        QA().load()
    qa = source(QA, "own.jsonl", FULL, QUESTION)
    task = qa.load()[0]
    assert (task.id, task.answers) == ("17", ("Vesano", "Vesano I", "the Old"))
    assert task.metadata == {"kind": "bridge", "level": "hard", "hops": 2, "path": ["Karimo", "Vesano"]}
    assert list(qa.corpus() or ()) == [Passage("Karimo", "A film by Vesano."), Passage("Boru", "A river.")]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([FULL]), tmp_path / "own.parquet")
    columns = QA(QA.Config(path=str(tmp_path / "own.parquet")))
    assert (columns.load()[0], columns.corpus()) == (task, qa.corpus())


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({"question": "Who?"}, "line 1 of .* has no answer under answers, answer, golden_answers; add one"),
        ({"question": "Who?", "answers": [{}]}, "has a dict under answers or answer or golden_answers; give a text"),
        (QUESTION | {"hops": "two"}, "the hops of line 1 of .* are 'two'; give a whole number"),
        (QUESTION | {"passages": [{"title": "Karimo"}]}, "passage 1 of line 1 of .* has no text under 'text'"),
    ],
)
def test_a_malformed_record_is_named(source: Any, record: Any, sentence: str) -> None:
    qa = source(QA, "own.jsonl", record)
    with pytest.raises(TaskError, match=sentence):
        qa.load(), qa.corpus()


def test_of_csv_digits_are_a_number_and_a_list_that_was_written_out_is_refused(source: Any, tmp_path: Path) -> None:
    def load(**cells: str) -> Any:
        with (tmp_path / "own.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("question", *cells), ("Who?", *cells.values())])
        (task,) = QA(QA.Config(path=str(tmp_path / "own.csv"))).load()
        return task.answers, dict(task.metadata)

    assert load(answers="[Ann]", hops="2", path="") == (("[Ann]",), {"hops": 2})
    for cells in ({"answers": """['a', "it's"]"""}, {"answer": "Ann", "path": '["Karimo"]'}):
        with pytest.raises(
            TaskError, match=r"own\.csv has the text .* under .*: a list in CSV would count as one text;"
        ):
            load(**cells)
    (task,) = source(QA, "own.jsonl", QUESTION | {"answers": "['a']"}).load()
    assert task.answers == ("['a']",), "there a text is a text"


HOTPOT = RECORDS["hotpotqa"]
NOTHING_ELSE = ({}, {"context": "a note"}, HOTPOT | {"passages": []}, HOTPOT | {"context": []})


OTHERS = {"hotpotqa": "context", "2wikimultihopqa": "context", "musique": "paragraphs"}


@pytest.mark.parametrize(
    ("record", "name"), [*((RECORDS[name], name) for name in OTHERS), *((other, "") for other in NOTHING_ELSE)]
)
def test_paragraphs_in_the_format_of_another_source_are_noticed_once(source, caplog, record, name) -> None:
    qa = source(QA, "own.jsonl", QUESTION, *(QUESTION | record | {"id": name} for name in "ab"))
    assert (len(qa.load()), qa.corpus()) == (3, None)
    under = f"qa does not read the paragraphs under {OTHERS.get(name)!r} of line 2 of {qa.config.path}"
    assert caplog.messages == [f"{under}; the task source {name} reads this format"] * bool(name)
