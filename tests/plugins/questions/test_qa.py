"""`qa` reads the keys that data sets of the field use, from every format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from agent_r1_questions.qa import QA

from agent_r1_core import Passage, TaskError

PLAIN = {"question": "Who directed Karimo?", "answer": "Vesano"}
FULL = {
    "id": 17,
    "question": "Who directed Karimo?",
    "golden_answers": ["Vesano", "Vesano I"],
    "aliases": ["Vesano", "the Old"],
    "hops": 2,
    "type": "bridge",
    "level": "hard",
    "path": ["Karimo", "Vesano"],
    "passages": [{"title": "Karimo", "text": "A film by Vesano."}, {"title": "Boru", "text": "A river."}],
    "metadata": {"anything": 1},
}


def test_a_question_and_an_answer_are_enough(source: Any) -> None:
    qa = source(QA, "own.jsonl", PLAIN, PLAIN | {"answer": 42})
    first, second = qa.load()
    assert (first.id, first.prompt, first.answers, first.metadata) == ("own.0", PLAIN["question"], ("Vesano",), {})
    assert (second.id, second.answers) == ("own.1", ("42",))
    assert qa.corpus() is None


def test_everything_else_that_a_record_tells_is_kept(source: Any, tmp_path: Path) -> None:
    qa = source(QA, "own.jsonl", FULL, PLAIN)
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
        (
            {"question": "Who?", "answers": [{"text": "Vesano"}]},
            "has a dict under answers or answer or golden_answers; give a text",
        ),
        ({"answer": "Vesano"}, "line 1 of .* has no text under 'question'"),
        (PLAIN | {"hops": "two"}, "the hops of line 1 of .* are a str; give a whole number"),
        (PLAIN | {"passages": [{"title": "Karimo"}]}, "passage 1 of line 1 of .* has no text under 'text'"),
        (PLAIN | {"passages": {"title": "Karimo"}}, "the passages of line 1 of .* are no list"),
    ],
)
def test_a_malformed_record_is_named(source: Any, record: Any, sentence: str) -> None:
    qa = source(QA, "own.jsonl", record)
    with pytest.raises(TaskError, match=sentence):
        qa.load(), qa.corpus()


HOTPOT = {"context": [["Karimo", ["A film."]]], "supporting_facts": [["Karimo", 0]]}
MUSIQUE = {"paragraphs": [{"title": "Karimo", "paragraph_text": "A film."}], "question_decomposition": []}


@pytest.mark.parametrize(
    ("record", "key", "name"),
    [
        (HOTPOT, "context", "hotpotqa"),
        (HOTPOT | {"evidences": []}, "context", "2wikimultihopqa"),
        (MUSIQUE, "paragraphs", "musique"),
    ],
)
def test_paragraphs_in_the_format_of_another_source_are_noticed_once(
    source: Any, caplog: pytest.LogCaptureFixture, record: Any, key: str, name: str
) -> None:
    qa = source(QA, "own.jsonl", PLAIN, PLAIN | record, PLAIN | record)
    assert (len(qa.load()), qa.corpus()) == (3, None)
    assert caplog.messages == [
        f"qa does not read the paragraphs under {key!r} of line 2 of {qa.config.path}; the task source {name} "
        "reads this format"
    ]


@pytest.mark.parametrize("record", [{}, {"context": "a note"}, HOTPOT | {"passages": []}, HOTPOT | {"context": []}])
def test_other_keys_are_left_alone(source: Any, caplog: pytest.LogCaptureFixture, record: Any) -> None:
    source(QA, "own.jsonl", PLAIN | record).load()
    assert caplog.messages == []


def test_without_a_place_to_read_from_it_asks_for_one() -> None:
    with pytest.raises(TaskError, match="no data set is named; set path to a file or folder, or hub"):
        QA().load()
