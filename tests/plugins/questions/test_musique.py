"""MuSiQue in its original format; the records are invented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_r1_questions.musique import MuSiQue

from agent_r1_core import Passage, TaskError


def paragraph(idx: int, title: str, text: str, supporting: bool = False) -> dict[str, Any]:
    return {"idx": idx, "title": title, "paragraph_text": text, "is_supporting": supporting}


RECORD = {
    "id": "3hop1__136129_87694_124169",
    "paragraphs": [
        paragraph(0, "Boru", "Boru is a river."),
        paragraph(1, "Karimo", "Karimo was directed by Vesano.", True),
        paragraph(2, "Vesano", "Vesano was born in Tavelo.", True),
        paragraph(3, "Karimo", "Karimo lasts two hours."),
        paragraph(4, "Tavelo", "Tavelo lies on the Boru.", True),
    ],
    "question": "Which river is the birthplace of the director of Karimo on?",
    "question_decomposition": [
        {"id": 1, "question": "Karimo >> director", "answer": "Vesano", "paragraph_support_idx": 1},
        {"id": 2, "question": "#1 >> birthplace", "answer": "Tavelo", "paragraph_support_idx": 2},
        {"id": 3, "question": "#2 >> river", "answer": "the Boru", "paragraph_support_idx": 4},
    ],
    "answer": "the Boru",
    "answer_aliases": ["Boru", "Boru River", "the Boru"],
    "answerable": True,
}
TWIN = RECORD | {"answerable": False, "paragraphs": RECORD["paragraphs"][:2]}  # type: ignore[index]


def source(folder: Path, *records: Any, **options: Any) -> MuSiQue:
    path = folder / "musique.jsonl"
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return MuSiQue(MuSiQue.Config(path=str(path), **options))


def test_a_record_gives_its_task_and_all_of_its_paragraphs(tmp_path: Path) -> None:
    musique = source(tmp_path, RECORD)
    (task,) = musique.load()
    assert (task.id, task.prompt) == (RECORD["id"], RECORD["question"])
    assert task.answers == ("the Boru", "Boru", "Boru River")
    assert task.metadata == {"kind": "3hop1", "hops": 3, "path": ["Karimo", "Vesano", "Tavelo"]}
    passages = list(musique.corpus() or ())
    assert [passage.title for passage in passages] == ["Boru", "Karimo", "Vesano", "Karimo", "Tavelo"]
    assert passages[3] == Passage("Karimo", "Karimo lasts two hours.")


def test_unanswerable_questions_are_refused_or_left_out_before_they_are_counted(tmp_path: Path) -> None:
    last = RECORD | {"id": "2hop__1_2"}
    with pytest.raises(TaskError, match=r"line 2 of .* is not answerable .*; set unanswerable=skip"):
        source(tmp_path, RECORD, TWIN, last).load()
    musique = source(tmp_path, RECORD, TWIN, last, unanswerable="skip", offset=1, size=1)
    (task,) = musique.load()
    assert (task.id, task.metadata["kind"], task.metadata["hops"]) == ("2hop__1_2", "2hop", 2)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"answer": None, "answerable": None}, "line 1 of .* has no 'answer', as in a test set"),
        ({"answer_aliases": [["Boru"]]}, "line 1 of .* has a list under answer_aliases; give a text"),
        ({"id": None}, "line 1 of .* has an empty 'id'"),
        ({"paragraphs": [{"title": "Boru"}]}, "the paragraphs of line 1 of .* are malformed"),
        ({"paragraphs": "Boru"}, "the paragraphs of line 1 of .* are malformed"),
    ],
)
def test_a_malformed_record_is_named(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TaskError, match=sentence):
        source(tmp_path, RECORD | change).load()
