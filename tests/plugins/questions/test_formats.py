"""A file of one data set, given to the task source of another one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_r1_questions.bamboogle import Bamboogle
from agent_r1_questions.hotpotqa import HotpotQA
from agent_r1_questions.musique import MuSiQue
from agent_r1_questions.two_wiki import TwoWikiMultihopQA

from agent_r1_core import TaskError

QUESTION = {"question": "Who directed Karimo?", "answer": "Vesano"}
HOTPOT = QUESTION | {
    "id": "2hop__1_2",
    "type": "bridge",
    "context": [["Karimo", ["A film by Vesano."]]],
    "supporting_facts": [["Karimo", 0]],
}
RECORDS: dict[str, dict[str, Any]] = {
    "hotpotqa": HOTPOT,
    "2wikimultihopqa": HOTPOT | {"evidences": [["Karimo", "director", "Vesano"]]},
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
