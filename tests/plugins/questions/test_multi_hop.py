"""HotpotQA, 2WikiMultihopQA and MuSiQue in their original formats and in the columns of the hub; records are ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_r1_questions.hotpotqa import HotpotQA
from agent_r1_questions.musique import MuSiQue
from agent_r1_questions.two_wiki import TwoWikiMultihopQA

from agent_r1_core import Passage, Task, TaskError

ORIGINAL: dict[str, Any] = {
    "_id": "5a",
    "answer": "Paris",
    "type": "bridge",
    "level": "easy",
    "question": "Which city is the capital of the country of Lyon?",
    "context": [["Lyon", ["Lyon is in France.", " It is large."]], ["France", ["Its capital is Paris."]]],
    "supporting_facts": [["Lyon", 0], ["France", 0], ["Lyon", 1]],
}


def columns(record: dict[str, Any]) -> dict[str, Any]:
    """A record as the hub has it."""
    context = dict(zip(("title", "sentences"), zip(*record["context"], strict=True), strict=True))
    facts = dict(zip(("title", "sent_id"), zip(*record["supporting_facts"], strict=True), strict=True))
    kept = {key: value for key, value in record.items() if key not in ("_id", "answer_id")}
    return kept | {"id": record["_id"], "context": context, "supporting_facts": facts}


def test_ids_are_different_records_are_objects_and_without_paragraphs_there_is_no_corpus(source: Any) -> None:
    hotpotqa = source(HotpotQA, "hotpot.json", {key: ORIGINAL[key] for key in ("_id", "question", "answer")})
    (task,) = hotpotqa.load()
    assert task.metadata == {"hops": 2}, "what a record does not tell is not in its metadata"
    assert hotpotqa.corpus() is None
    with pytest.raises(TaskError, match=r"record 2 of .* has the id '5a' of an earlier one"):
        source(HotpotQA, "hotpot.json", ORIGINAL, ORIGINAL).load()
    for read in ("load", "corpus"):
        with pytest.raises(TaskError, match="record 1"):
            getattr(source(HotpotQA, "hotpot.json", '["text"]'), read)()
    shared = source(HotpotQA, "hotpot.json", ORIGINAL, ORIGINAL | {"_id": "5b"}).corpus()
    assert len(list(shared)) == 2, "shared paragraphs"
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


TWO_WIKI: dict[str, Any] = {
    "_id": "8813f87c",
    "type": "compositional",
    "answer": "Tavelo",
    "answer_id": "Q3",
    "question": "Which country is the director of Karimo from?",
    "context": [
        ["Karimo (film)", ["Karimo is a film.", "It was directed by Vesano."]],
        ["Vesano", ["Vesano is from Tavelo."]],
        ["Boru", ["Boru is a river."]],
    ],
    "supporting_facts": [["Karimo (film)", 1], ["Vesano", 0]],
    "evidences": [["Karimo (film)", "director", "Vesano"], ["Vesano", "country of citizenship", "Tavelo"]],
}
ALIASES = [
    {"Q_id": "Q3", "aliases": ["Tavelia", "Tavelo"], "demonyms": ["Tavelian"]},
    {"Q_id": "Q4", "aliases": ["Nowhere"], "demonyms": []},
]


@pytest.mark.parametrize(
    ("cls", "record", "answer", "metadata"),
    [
        (HotpotQA, ORIGINAL, "Paris", {"kind": "bridge", "level": "easy", "path": ["Lyon", "France"]}),
        (TwoWikiMultihopQA, TWO_WIKI, "Tavelo", {"kind": "compositional", "path": ["Karimo (film)", "Vesano"]}),
    ],
)
def test_both_formats_give_the_same_task_and_passages(source, cls, record, answer, metadata) -> None:
    passages = {
        "Paris": ["Lyon: Lyon is in France. It is large.", "France: Its capital is Paris."],
        "Tavelo": ["Karimo (film): Karimo is a film. It was directed by Vesano.", "Vesano: Vesano is from Tavelo."],
    }
    passages["Tavelo"].append("Boru: Boru is a river.")
    for written in (record, columns(record)):
        read = source(cls, "records.json", written)
        assert read.load() == [Task(record["_id"], record["question"], (answer,), metadata=metadata | {"hops": 2})]
        assert list(read.corpus()) == [Passage(*text.split(": ", 1)) for text in passages[answer]]


def test_further_names_of_an_answer_are_those_of_its_id(source: Any, records: Any) -> None:
    yes = TWO_WIKI | {"_id": "b", "type": "bridge_comparison", "answer": "yes", "answer_id": None}
    aliases = records("id_aliases.json", "\n".join(map(json.dumps, ALIASES)))
    first, second = source(TwoWikiMultihopQA, "dev.json", TWO_WIKI, yes, aliases=aliases).load()
    assert first.answers == ("Tavelo", "Tavelia", "Tavelian"), "the answer as it is written comes first"
    assert (second.answers, second.metadata["hops"]) == (("yes",), 4)
    new = TWO_WIKI | {"type": "new", "evidences": [["a", "b", "c"]] * 3}
    (other,) = source(TwoWikiMultihopQA, "dev.json", new).load()
    assert other.metadata["hops"] == 3, "of a kind that nobody knows, the facts that lead to the answer"


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


def test_a_record_gives_its_task_and_paragraphs_and_an_unanswerable_one_is_refused_or_left_out(source: Any) -> None:
    musique = source(MuSiQue, "musique.jsonl", RECORD)
    (task,) = musique.load()
    assert (task.id, task.prompt) == (RECORD["id"], RECORD["question"])
    assert task.answers == ("the Boru", "Boru", "Boru River")
    assert task.metadata == {"kind": "3hop1", "hops": 3, "path": ["Karimo", "Vesano", "Tavelo"]}
    passages = list(musique.corpus() or ())
    assert [passage.title for passage in passages] == ["Boru", "Karimo", "Vesano", "Karimo", "Tavelo"]
    assert passages[3] == Passage("Karimo", "Karimo lasts two hours.")
    file = "musique.jsonl", RECORD, TWIN, RECORD | {"id": "2hop__1_2"}
    with pytest.raises(TaskError, match=r"line 2 of .* is not answerable .*; set unanswerable=skip"):
        source(MuSiQue, *file).load()
    (task,) = source(MuSiQue, *file, unanswerable="skip", offset=1, size=1).load()
    assert (task.id, task.metadata["kind"], task.metadata["hops"]) == ("2hop__1_2", "2hop", 2)


MALFORMED = {
    (HotpotQA, "hotpot.json"): (
        ({"answer": None}, "record 1 of .* has no 'answer', as in a test set .*; give a file or split with answers"),
        ({"type": ["bridge", {}]}, "record 1 of .* has a dict under type; give a text"),
        ({"question": ""}, "record 1 of .* has an empty 'question'"),
        ({"supporting_facts": [3]}, "supporting_facts of record 1 of .* are malformed"),
        ({"context": ["Lyon"]}, "context of record 1 of .* is malformed"),
        ({"context": {"title": ["a"], "sentences": []}}, "context of record 1 of .* is malformed"),
    ),
    (TwoWikiMultihopQA, "dev.json"): (({"answer": ""}, "record 1 of .*dev.json has no 'answer', as in a test set"),),
    (MuSiQue, "musique.jsonl"): (
        ({"answer": None, "answerable": None}, "line 1 of .* has no 'answer', as in a test set"),
        ({"answer_aliases": [["Boru"]]}, "line 1 of .* has a list under answer_aliases; give a text"),
        ({"id": None}, "line 1 of .* has an empty 'id'"),
        ({"paragraphs": [{"title": "Boru"}]}, "the paragraphs of line 1 of .* are malformed"),
    ),
}
RIGHT = {HotpotQA: ORIGINAL, TwoWikiMultihopQA: TWO_WIKI, MuSiQue: RECORD}


@pytest.mark.parametrize(
    ("cls", "name", "change", "sentence"), [(*file, *case) for file, cases in MALFORMED.items() for case in cases]
)
def test_a_malformed_record_is_named(source: Any, cls: Any, name: str, change: dict[str, Any], sentence: str) -> None:
    read = source(cls, name, RIGHT[cls] | change)
    with pytest.raises(TaskError, match=sentence):
        read.load(), read.corpus()


@pytest.mark.parametrize(
    ("change", "aliases", "sentence"),
    [
        ({"answer_id": None}, "aliases.jsonl", "no record of .*dev.json has an answer_id, .* or leave aliases out"),
        ({}, "dev.json", "record 1 of .*dev.json has no text under 'Q_id'"),
        ({}, "absent.json", "no data set at .*absent.json"),
    ],
)
def test_aliases_without_use_are_named(source, records, tmp_path, change, aliases, sentence):
    records("aliases.jsonl", *ALIASES)
    two_wiki = source(TwoWikiMultihopQA, "dev.json", TWO_WIKI | change, aliases=str(tmp_path / aliases))
    with pytest.raises(TaskError, match=sentence):
        two_wiki.load()
