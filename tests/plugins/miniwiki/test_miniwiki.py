"""The task source `miniwiki`: stable tasks, from worlds that share nothing between splits and hold every answer."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict
from typing import ClassVar

import bm25s
import pytest
from agent_r1_miniwiki.grammar import COMPARISONS, SENTENCES, chains
from agent_r1_miniwiki.source import MiniWiki
from agent_r1_miniwiki.world import World, split_of
from pydantic import ValidationError

from agent_r1_core.errors import TaskError
from agent_r1_core.testing import TaskSourceContract


class TestMiniwiki(TaskSourceContract):
    component = MiniWiki
    config: ClassVar = {"size": 20}


ALL_KINDS = ("compositional", "bridge", "comparison")


def source(**options: object) -> MiniWiki:
    return MiniWiki(MiniWiki.Config(**options))


def test_tasks_are_drawn_evenly_and_the_same_again_with_every_passage_that_they_need() -> None:
    few, many = source(size=50).load(), source(size=300).load()
    assert [asdict(task) for task in few] == [asdict(task) for task in many[:50]]
    assert {(task.metadata["hops"], task.metadata["kind"]) for task in many} == {(2, "compositional"), (2, "bridge")}
    counts = Counter(tuple(task.metadata["chain"]) for task in source(split="eval", size=200).load())
    assert len(counts) == 19
    assert max(counts.values()) - min(counts.values()) <= 1
    every = source(size=2000, hops=(1, 2, 3), kinds=ALL_KINDS).load()
    assert len({task.id for task in every}) == 2000
    assert all(len(task.answers) == 1 for task in every)
    prompts = [{t.prompt for t in source(**o).load()} for o in ({}, {"seed": 1}, {"split": "eval"})]
    assert len(prompts[0] & prompts[1]) < 50, "worlds of one split may share names, not facts"
    assert not prompts[0] & prompts[2]
    miniwiki = source(split="eval", size=200, worlds=3)
    titles = [passage.title for passage in miniwiki.corpus()]
    assert len(titles) == len(set(titles)) == 3 * 120
    assert {title for task in miniwiki.load() for title in task.metadata["path"]} <= set(titles)


def test_questions_begin_with_the_types_that_they_are_about() -> None:
    for types in (["film"], ["person"], ["company", "city"]):
        miniwiki = source(hops=[1, 2], kinds=ALL_KINDS, about=types, size=200)
        worlds = {world.seed: world.entities for world in miniwiki.worlds}
        began = {worlds[task.metadata["world"]][task.metadata["path"][0]].type for task in miniwiki.load()}
        assert began == set(types)
    assert MiniWiki(MiniWiki.Config(about=["film", "person", "company", "city"])).load() == MiniWiki().load()


def test_wrong_and_idle_options_and_too_many_questions_are_refused() -> None:
    for options in ({"hops": (4,)}, {"hops": ()}, {"kinds": ("riddle",)}, {"world_size": 3}, {"colour": 1}):
        with pytest.raises(ValidationError):
            source(**options)
    assert "kinds" in MiniWiki.idle_options(MiniWiki.Config(hops=(1,), kinds=("compositional", "comparison")))
    assert not MiniWiki.idle_options(MiniWiki.Config())
    with pytest.raises(TaskError, match=r"holds \d+ questions .* size=5000 was asked for; raise worlds"):
        source(worlds=1, size=5000).load()


def read(text: str, relation: str, name: str) -> str:
    """What a passage says about one relation, found by the words of its sentence alone."""
    template = next(s for sentences in SENTENCES.values() for s in sentences if f"{{{relation}}}" in s)
    pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>\\w+)", re.escape(template.replace("{name}", name)))
    match = re.search(pattern, text)
    assert match, (pattern, text)
    return match.group(relation)


def test_train_and_eval_worlds_share_no_name() -> None:
    def names(split: str) -> set[str]:
        worlds = [World(seed, split, 120) for seed in range(20)]  # type: ignore[arg-type]
        return {n for w in worlds for e in w.entities.values() for n in (e.name, e.facts.get("country", e.name))}

    train, evaluation = names("train"), names("eval")
    assert len(train) > 1500
    assert len(evaluation) > 1000
    assert not train & evaluation
    assert {split_of(name) for name in train} == {"train"}


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_every_answer_follows_from_the_passages_along_the_path(hops: int) -> None:
    world = World(1, "eval", 240)
    text = {p.title: p.text for p in world.passages}
    questions = list(world.questions(hops))
    assert len({q.chain for q in questions}) == len(chains(hops))
    for question in questions:
        value = question.path[0]
        assert value in question.text
        for title, relation in zip(question.path, question.chain, strict=True):
            assert title == value
            value = read(text[title], relation, title)
        assert value == question.answer


def test_an_answer_stands_only_in_the_last_passage_and_a_comparison_is_answered_by_the_earlier_year() -> None:
    world = World(2, "train", 240)
    text = {p.title: p.text for p in world.passages}
    for question in (one for hops in (1, 2, 3) for one in world.questions(hops, ALL_KINDS)):
        if question.kind != "comparison":
            words = " ".join([question.text, *(text[title] for title in question.path[:-1])])
            assert question.answer not in words.replace(".", " ").replace("?", " ").split()
            assert question.answer in text[question.path[-1]]
    world = World(5, "train", 120)
    text = {p.title: p.text for p in world.passages}
    comparisons = list(world.questions(2, ["comparison"]))
    assert {q.chain[0] for q in comparisons} == set(COMPARISONS)
    for question in comparisons:
        years = {title: int(read(text[title], question.chain[0], title)) for title in question.path}
        assert question.answer == min(years, key=lambda title: years[title])


def test_an_entitys_name_retrieves_its_own_passage_by_bm25() -> None:
    taken: set[str] = set()
    passages = [p for seed in range(4) for p in World(seed, "eval", 120, taken).passages]
    index = bm25s.BM25()
    documents = bm25s.tokenize([f"{p.title}\n{p.text}" for p in passages], show_progress=False)
    index.index(documents, show_progress=False)
    queries = bm25s.tokenize([p.title for p in passages], show_progress=False)
    best = index.retrieve(queries, k=1, show_progress=False).documents[:, 0]
    assert [passages[i].title for i in best] == [p.title for p in passages]
