"""The task source `geo` asks about real places: answers follow from its passages, and its splits share nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from importlib import util
from typing import ClassVar

import pytest
from agent_r1_geo import source as module
from agent_r1_geo.atlas import atlas, folded
from agent_r1_geo.source import Geo
from pydantic import ValidationError

from agent_r1_core.contracts.demonstration import demonstrated_actions
from agent_r1_core.errors import TaskError
from agent_r1_core.testing import TaskSourceContract
from agent_r1_core.trajectory import Task


class TestGeo(TaskSourceContract):
    component = Geo
    config: ClassVar = {"size": 50}


EVERY = {"hops": (1, 2, 4), "kinds": ("compositional", "bridge", "conjunction", "comparison", "bridge_comparison")}
SPLITS = ("train", "eval")


def source(**options: object) -> Geo:
    return Geo(Geo.Config(**options))


def texts(geo: Geo) -> dict[str, str]:
    """Title -> text of every passage; no title comes twice."""
    passages = list(geo.corpus())
    found = {passage.title: passage.text for passage in passages}
    assert len(found) == len(passages)
    return found


@pytest.fixture(scope="module")
def tasks() -> dict[str, list[Task]]:
    return {split: list(source(split=split, **EVERY).load()) for split in SPLITS}


@pytest.fixture(scope="module")
def corpora() -> dict[str, dict[str, str]]:
    return {split: texts(source(split=split)) for split in SPLITS}


def test_no_country_or_city_is_in_both_splits(tasks: dict[str, list[Task]], corpora: dict[str, dict[str, str]]) -> None:
    """Neither named in a question, nor as a passage, nor as an answer, by whatever name it goes."""
    entities = {split: {one for task in tasks[split] for one in task.metadata["entities"]} for split in SPLITS}
    assert not entities["train"] & entities["eval"]
    assert not corpora["train"].keys() & corpora["eval"].keys()
    facts = {"currency", "continent"}
    named = {
        split: {folded(title) for title in corpora[split]}
        | {folded(title) for task in tasks[split] for title in task.metadata["path"]}
        | {folded(name) for t in tasks[split] if t.metadata["chain"][-1] not in facts for name in t.answers}
        for split in SPLITS
    }
    assert not named["train"] & named["eval"]
    for split, other in (SPLITS, SPLITS[::-1]):
        prompts = "\n".join(f" {folded(task.prompt)} " for task in tasks[split])
        own = "\n".join(f" {name} " for name in named[split])  # San Francisco is within San Francisco de Macorís
        foreign = [name for name in named[other] if f" {name} " in prompts and f" {name} " not in own]
        assert not foreign, f"{split} asks about places of {other}"


def test_an_answer_follows_from_the_passages_of_its_path_and_from_no_fewer_and_is_the_only_one(
    tasks: dict[str, list[Task]], corpora: dict[str, dict[str, str]]
) -> None:
    """Facts are read from the passages' words alone."""
    for split in SPLITS:
        corpus = corpora[split]
        for task in tasks[split]:
            path, chain = task.metadata["path"], task.metadata["chain"]
            assert task.metadata["hops"] == len(path) == len(set(path))
            pages = [corpus[title] for title in path]
            if task.metadata["kind"].endswith("comparison"):
                sizes = [(inhabitants(page), title) for page, title in zip(pages, path, strict=True)]
                compared = sizes[1::2] if task.metadata["hops"] == 4 else sizes
                assert max(compared)[1] == task.answers[0]
                continue
            assert any(states(pages[-1], chain[-1], answer) for answer in task.answers), task
            if len(path) == 2:
                assert path[0] in task.prompt
                assert f" {folded(path[1])} " not in f" {folded(path[0])} ", "the name says what the first passage does"
                assert f" {folded(path[0])} " not in f" {folded(pages[1])} ", "the second passage alone would do"
                assert not any(states(pages[0], "country", answer) for answer in task.answers)
    for split in SPLITS:
        world = atlas(split)
        for task in tasks[split]:
            if task.metadata["kind"] == "conjunction":
                keys = task.metadata["entities"]
                pair = {world.cities[key].country if key in world.cities else key for key in keys}
                (between,) = (code for code, neighbours in world.borders.items() if pair <= neighbours)
                assert task.answers == world.countries[between].answers


def inhabitants(page: str) -> int:
    found = re.search(r"It has ([\d,]+) inhabitants", page)
    assert found is not None
    return int(found[1].replace(",", ""))


def states(page: str, fact: str, answer: str) -> bool:
    """Whether a passage says the answer where it says this fact."""
    patterns = {
        "capital": rf"Its capital is {re.escape(answer)}\.",
        "currency": rf"Its currency is the {re.escape(answer)} \(",
        "continent": rf"is a country in {answer}\.",
        "only_neighbour": rf"It borders only (the )?{answer}\.",
        "country": rf"is a city in (the )?{re.escape(answer)}\.",
        "capital_of": rf"^(The )?{re.escape(answer)} is a country",
        "borders": rf"^(The )?{re.escape(answer)} is a country.* It borders .* and ",
    }
    return re.search(patterns[fact], page) is not None


def test_a_demonstration_asks_for_what_was_named_until_the_answer_is_read(corpora: dict[str, dict[str, str]]) -> None:
    shown = [task for task in source(demonstrate=True).load() if task.demonstration]
    assert {task.metadata["kind"] for task in shown} == {"compositional"}
    for task in shown:
        *searches, last = demonstrated_actions(task.demonstration)
        read = task.prompt
        for search in searches:
            (call,) = search.calls
            title = call.arguments["query"]
            assert folded(title) in folded(read), task.prompt
            read = corpora["train"][title]
        assert last.text == f"<answer>{task.answers[0]}</answer>"
        assert task.answers[0] in read


@pytest.mark.slow
def test_another_process_draws_the_same_questions(printed_everywhere: Callable[[str], str]) -> None:
    assert printed_everywhere(f"""
from agent_r1_geo.source import Geo
tasks = Geo(Geo.Config(split="eval", size=300, seed=7, **{EVERY})).load()
print([(task.id, task.prompt, task.answers) for task in tasks])
""")


def test_forms_are_drawn_evenly_few_begin_as_many_do_and_ambiguous_names_are_not_asked(corpora):
    many, few = source(size=120).load(), source(size=60).load()
    assert [task.id for task in few] == [task.id for task in many[:60]]
    assert len(source().load()) > 2000
    counts = Counter((task.metadata["kind"], *task.metadata["chain"]) for task in few)
    assert len(counts) == 14
    assert max(counts.values()) - min(counts.values()) <= 1
    assert {task.id for task in few} != {task.id for task in source(size=60, seed=1).load()}
    titles = corpora["train"].keys() | corpora["eval"].keys()
    assert {"London", "Mexico City", "Porto Alegre", "Riga", "Latvia"} <= titles
    assert not titles & {"Georgia", "Washington", "Birmingham", "Hyderabad", "Córdoba", "Puerto Rico"}
    assert "capital" not in corpora["train"]["South Africa"]
    assert corpora["train"]["Turkey"].startswith("Turkey is a country. Its capital is Ankara.")


def test_wrong_and_idle_options_are_refused_and_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for options in ({"hops": (3,)}, {"kinds": ("riddle",)}, {"size": 0}, {"colour": 1}):
        with pytest.raises(ValidationError):
            source(**options)
    assert not Geo.idle_options(Geo.Config())
    assert "hops" in Geo.idle_options(Geo.Config(hops=(2, 4)))
    assert "kinds" in Geo.idle_options(Geo.Config(kinds=("compositional", "comparison"), hops=(1,)))
    assert "demonstrate" in Geo.idle_options(Geo.Config(kinds=("bridge",), hops=(1,)))
    with pytest.raises(TaskError, match=r"holds \d+ questions with split=eval.* size=90000 was asked for"):
        source(split="eval", size=90000).load()
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "pycountry" else util.find_spec(name))
    with pytest.raises(TaskError, match=r"the package pycountry is missing; run `pip install 'agent-r1\[geo\]'`"):
        source().load()
