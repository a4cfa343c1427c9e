"""2WikiMultihopQA in its original format, with and without ids, and in the hub's columns; the records are invented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_r1_questions.two_wiki import TwoWikiMultihopQA

from agent_r1_core import Passage, TaskError

ORIGINAL: dict[str, Any] = {
    "_id": "8813f87c",
    "type": "compositional",
    "question": "Which country is the director of Karimo from?",
    "context": [
        ["Karimo (film)", ["Karimo is a film.", "It was directed by Vesano."]],
        ["Vesano", ["Vesano is from Tavelo."]],
        ["Boru", ["Boru is a river."]],
    ],
    "entity_ids": "Q1_Q2",
    "supporting_facts": [["Karimo (film)", 1], ["Vesano", 0]],
    "evidences": [["Karimo (film)", "director", "Vesano"], ["Vesano", "country of citizenship", "Tavelo"]],
    "answer": "Tavelo",
    "evidences_id": [["Q1", "director", "Q2"], ["Q2", "country of citizenship", "Q3"]],
    "answer_id": "Q3",
}
COLUMNS = {key: ORIGINAL[key] for key in ("type", "question", "evidences", "answer")} | {
    "id": "8813f87c",
    "context": dict(zip(("title", "sentences"), zip(*ORIGINAL["context"], strict=True), strict=True)),
    "supporting_facts": {"title": ["Karimo (film)", "Vesano"], "sent_id": [1, 0]},
}
ALIASES = [
    {"Q_id": "Q3", "aliases": ["Tavelia", "Tavelo"], "demonyms": ["Tavelian"]},
    {"Q_id": "Q4", "aliases": ["Nowhere"], "demonyms": []},
]


def source(folder: Path, *records: Any, **options: Any) -> TwoWikiMultihopQA:
    (folder / "dev.json").write_text(json.dumps(records), encoding="utf-8")
    (folder / "id_aliases.json").write_text("\n".join(map(json.dumps, ALIASES)), encoding="utf-8")
    return TwoWikiMultihopQA(TwoWikiMultihopQA.Config(path=str(folder / "dev.json"), **options))


@pytest.mark.parametrize("record", [ORIGINAL, COLUMNS], ids=["original", "columns"])
def test_both_formats_give_the_same_task_and_passages(tmp_path: Path, record: dict[str, Any]) -> None:
    two_wiki = source(tmp_path, record)
    (task,) = two_wiki.load()
    assert (task.id, task.prompt, task.answers) == ("8813f87c", ORIGINAL["question"], ("Tavelo",))
    assert task.metadata == {"kind": "compositional", "hops": 2, "path": ["Karimo (film)", "Vesano"]}
    assert list(two_wiki.corpus() or ()) == [
        Passage("Karimo (film)", "Karimo is a film. It was directed by Vesano."),
        Passage("Vesano", "Vesano is from Tavelo."),
        Passage("Boru", "Boru is a river."),
    ]


def test_further_names_of_an_answer_are_those_of_its_id(tmp_path: Path) -> None:
    yes = ORIGINAL | {"_id": "b", "type": "bridge_comparison", "answer": "yes", "answer_id": None}
    first, second = source(tmp_path, ORIGINAL, yes, aliases=str(tmp_path / "id_aliases.json")).load()
    assert first.answers == ("Tavelo", "Tavelia", "Tavelian"), "the answer as it is written comes first"
    assert (second.answers, second.metadata["hops"]) == (("yes",), 4)
    (other,) = source(tmp_path, ORIGINAL | {"type": "new", "evidences": [["a", "b", "c"]] * 3}).load()
    assert other.metadata["hops"] == 3, "of a kind that nobody knows, the facts that lead to the answer"


@pytest.mark.parametrize(
    ("change", "aliases", "sentence"),
    [
        ({"answer": ""}, None, "record 1 of .*dev.json has no 'answer', as in a test set"),
        ({"answer_id": None}, "id_aliases.json", "no record of .*dev.json has an answer_id, .* or leave aliases out"),
        ({}, "dev.json", "record 1 of .*dev.json has no text under 'Q_id'"),
        ({}, "absent.json", "no data set at .*absent.json"),
        ({"context": {"title": ["a"]}}, None, "context of record 1 of .*dev.json is malformed"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, change: dict[str, Any], aliases: str | None, sentence: str) -> None:
    options = {"aliases": str(tmp_path / aliases)} if aliases else {}
    two_wiki = source(tmp_path, ORIGINAL | change, **options)
    with pytest.raises(TaskError, match=sentence):
        two_wiki.load(), two_wiki.corpus()
