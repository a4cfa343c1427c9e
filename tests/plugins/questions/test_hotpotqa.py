from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_r1_questions.hotpotqa import HotpotQA

from agent_r1_core import Passage, TaskError

ORIGINAL = {
    "_id": "5a",
    "question": "Which city is the capital of the country of Lyon?",
    "answer": "Paris",
    "type": "bridge",
    "level": "easy",
    "context": [["Lyon", ["Lyon is in France.", " It is large."]], ["France", ["Its capital is Paris."]]],
    "supporting_facts": [["Lyon", 0], ["France", 0], ["Lyon", 1]],
}
COLUMNS = ORIGINAL | {
    "id": "5a",
    "context": {
        "title": ["Lyon", "France"],
        "sentences": [["Lyon is in France.", " It is large."], ["Its capital is Paris."]],
    },
    "supporting_facts": {"title": ["Lyon", "France", "Lyon"], "sent_id": [0, 0, 1]},
}
del COLUMNS["_id"]


def source(tmp_path: Path, *records: Any, **options: Any) -> HotpotQA:
    path = tmp_path / "hotpot.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    return HotpotQA(HotpotQA.Config(path=str(path), **options))


def test_both_formats_give_the_same_task_and_passages(tmp_path: Path) -> None:
    for record in (ORIGINAL, COLUMNS):
        hotpotqa = source(tmp_path, record)
        (task,) = hotpotqa.load()
        assert (task.id, task.prompt, task.answers) == ("5a", ORIGINAL["question"], ("Paris",))
        assert task.metadata == {"kind": "bridge", "level": "easy", "hops": 2, "path": ["Lyon", "France"]}
        passages = [Passage("Lyon", "Lyon is in France. It is large."), Passage("France", "Its capital is Paris.")]
        assert list(hotpotqa.corpus() or ()) == passages


def test_without_paragraphs_there_is_no_corpus(tmp_path: Path) -> None:
    bare = {key: ORIGINAL[key] for key in ("_id", "question", "answer")}
    hotpotqa = source(tmp_path, bare)
    (task,) = hotpotqa.load()
    assert task.metadata == {"hops": 2}, "what a record does not tell is not in its metadata"
    assert hotpotqa.corpus() is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"answer": None}, "record 1 of .* has no 'answer', as in a test set .*; give a file or split with answers"),
        ({"answer": 5}, "record 1 of .* has no text under 'answer'"),
        ({"type": ["bridge", {}]}, "record 1 of .* has a dict under type; give a text"),
        ({"question": ""}, "record 1 of .* has an empty 'question'"),
        ({"_id": 5}, "no text under '_id'"),
        ({"supporting_facts": [3]}, "supporting_facts of record 1 of .* are malformed"),
        *(
            ({"context": context}, "context of record 1 of .* is malformed")
            for context in (["Lyon"], [["Lyon", 3]], {"title": ["a"], "sentences": []}, 7)
        ),
    ],
)
def test_a_malformed_record_is_named(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    hotpotqa = source(tmp_path, ORIGINAL | change)
    with pytest.raises(TaskError, match=sentence):
        hotpotqa.load(), hotpotqa.corpus()


def test_an_id_that_occurs_twice_and_what_is_no_record_are_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"record 2 of .* has the id '5a' of an earlier one"):
        source(tmp_path, ORIGINAL, ORIGINAL).load()
    for read in (source(tmp_path, "text").load, source(tmp_path, "text").corpus):
        with pytest.raises(TaskError, match="record 1"):
            read()
    assert len(list(source(tmp_path, ORIGINAL, ORIGINAL | {"_id": "5b"}).corpus() or ())) == 2, "shared paragraphs"
    assert HotpotQA().config.hub == "hotpotqa/hotpot_qa"
    assert "split" in HotpotQA.idle_options(HotpotQA.Config(path="hotpot.json", split="validation"))


@pytest.mark.real_data
def test_the_original_file_is_read(real_data: Path) -> None:
    path = str(real_data / "hotpotqa_100.json")
    hotpotqa = HotpotQA(HotpotQA.Config(path=path))
    tasks, passages = hotpotqa.load(), list(hotpotqa.corpus() or ())
    assert len(tasks) == 100
    assert len(passages) == 994
    titles = {passage.title for passage in passages}
    assert all(len(task.metadata["path"]) == 2 and titles.issuperset(task.metadata["path"]) for task in tasks)
    part = HotpotQA(HotpotQA.Config(path=path, offset=20, size=5))
    assert list(part.load()) == list(tasks[20:25])
