"""The world is deterministic, its splits share nothing, and its questions follow from its passages."""

from __future__ import annotations

import re

import bm25s
import pytest
import Stemmer
from agent_r1_miniwiki.grammar import COMPARISONS, RELATIONS, SENTENCES, chains
from agent_r1_miniwiki.names import split_of
from agent_r1_miniwiki.world import World

ALL_KINDS = ("compositional", "bridge", "comparison")


def read(text: str, relation: str, name: str) -> str:
    """What a passage says about one relation, found by the words of its sentence alone."""
    template = next(s for sentences in SENTENCES.values() for s in sentences if f"{{{relation}}}" in s)
    pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>\\w+)", re.escape(template.replace("{name}", name)))
    match = re.search(pattern, text)
    assert match, (pattern, text)
    return match.group(relation)


def all_questions(world: World) -> list:
    return [q for hops in (1, 2, 3) for q in world.questions(hops, ALL_KINDS)]


def test_the_same_seed_gives_the_same_world_and_another_seed_another() -> None:
    one, again, other = World(3, "train", 60), World(3, "train", 60), World(4, "train", 60)
    assert one.passages == again.passages
    assert all_questions(one) == all_questions(again)
    assert one.passages != other.passages


def test_train_and_eval_worlds_share_no_name() -> None:
    def names(split: str) -> set[str]:
        worlds = [World(seed, split, 120) for seed in range(20)]  # type: ignore[arg-type]
        return {n for w in worlds for e in w.entities.values() for n in (e.name, e.facts.get("country", e.name))}

    train, evaluation = names("train"), names("eval")
    assert len(train) > 1500
    assert len(evaluation) > 1000
    assert not train & evaluation
    assert {split_of(name) for name in train} == {"train"}


def test_a_passage_has_two_to_five_sentences_and_opens_with_its_title() -> None:
    for passage in World(0, "train", 240).passages:
        assert passage.text.startswith(f"{passage.title} is a ")
        assert 2 <= passage.text.count(".") <= 5


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


def test_an_answer_stands_only_in_the_last_passage_and_never_in_the_question() -> None:
    world = World(2, "train", 240)
    text = {p.title: p.text for p in world.passages}
    for question in all_questions(world):
        if question.kind != "comparison":
            words = " ".join([question.text, *(text[title] for title in question.path[:-1])])
            assert question.answer not in words.replace(".", " ").replace("?", " ").split()
            assert question.answer in text[question.path[-1]]


def test_a_comparison_is_answered_by_the_earlier_of_two_years() -> None:
    world = World(5, "train", 120)
    text = {p.title: p.text for p in world.passages}
    comparisons = list(world.questions(2, ["comparison"]))
    assert {q.chain[0] for q in comparisons} == set(COMPARISONS)
    for question in comparisons:
        years = {title: int(read(text[title], question.chain[0], title)) for title in question.path}
        assert question.answer == min(years, key=lambda title: years[title])


def test_multi_hop_questions_ask_for_no_year_and_two_hop_ones_for_no_country() -> None:
    targets = {hops: {RELATIONS[chain[-1]].target for chain in chains(hops)} for hops in (1, 2, 3)}
    assert targets[1] == {"person", "city", "company", "film", "country", "year"}
    assert targets[2] == {"person", "city", "company"}
    assert targets[3] == {"person", "city", "company", "country"}


@pytest.mark.parametrize("stemmer", [None, Stemmer.Stemmer("english")])
def test_an_entitys_name_retrieves_its_own_passage_by_bm25(stemmer: object) -> None:
    taken: set[str] = set()
    passages = [p for seed in range(4) for p in World(seed, "eval", 120, taken).passages]
    index = bm25s.BM25()
    documents = bm25s.tokenize([f"{p.title}\n{p.text}" for p in passages], stemmer=stemmer, show_progress=False)
    index.index(documents, show_progress=False)
    queries = bm25s.tokenize([p.title for p in passages], stemmer=stemmer, show_progress=False)
    best = index.retrieve(queries, k=1, show_progress=False).documents[:, 0]
    assert [passages[i].title for i in best] == [p.title for p in passages]


def test_a_world_too_small_for_its_types_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 12"):
        World(0, "train", 11)
