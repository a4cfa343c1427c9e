"""The task source draws stable tasks from its worlds and offers their passages as a corpus."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import ClassVar

import pytest
from agent_r1_miniwiki.source import MiniWiki
from agent_r1_miniwiki.world import World
from pydantic import ValidationError

from agent_r1_core.errors import TaskError
from agent_r1_core.testing import TaskSourceContract
from agent_r1_core.trajectory import Task


class TestMiniwiki(TaskSourceContract):
    component = MiniWiki
    config: ClassVar = {"size": 20}


def source(**options: object) -> MiniWiki:
    return MiniWiki(MiniWiki.Config(**options))


def test_tasks_are_drawn_evenly_and_the_same_again() -> None:
    few, many = source(size=50).load(), source(size=300).load()
    assert [asdict(task) for task in few] == [asdict(task) for task in many[:50]]
    assert {(task.metadata["hops"], task.metadata["kind"]) for task in many} == {(2, "compositional"), (2, "bridge")}
    counts = Counter(tuple(task.metadata["chain"]) for task in source(split="eval", size=200).load())
    assert len(counts) == 19
    assert max(counts.values()) - min(counts.values()) <= 1
    every = source(size=2000, hops=(1, 2, 3), kinds=("compositional", "bridge", "comparison")).load()
    assert len({task.id for task in every}) == 2000
    assert all(len(task.answers) == 1 for task in every)


def test_the_corpus_holds_every_passage_that_a_task_needs_once() -> None:
    miniwiki = source(split="eval", size=200, worlds=3)
    titles = [passage.title for passage in miniwiki.corpus()]
    assert len(titles) == len(set(titles)) == 3 * 120
    assert {title for task in miniwiki.load() for title in task.metadata["path"]} <= set(titles)


def test_seeds_and_splits_give_other_questions() -> None:
    prompts = [{t.prompt for t in source(**o).load()} for o in ({}, {"seed": 1}, {"split": "eval"})]
    assert len(prompts[0] & prompts[1]) < 50, "worlds of one split may share names, not facts"
    assert not prompts[0] & prompts[2]


def test_questions_begin_with_the_types_that_they_are_about() -> None:
    every = ["compositional", "bridge", "comparison"]
    for types in (["film"], ["person"], ["company", "city"]):
        source = MiniWiki(MiniWiki.Config(hops=[1, 2], kinds=every, about=types, size=200))
        began = {world.entities[task.metadata["path"][0]].type for task, world in _with_worlds(source)}
        assert began == set(types)
    assert MiniWiki(MiniWiki.Config(about=["film", "person", "company", "city"])).load() == MiniWiki().load()


def _with_worlds(source: MiniWiki) -> list[tuple[Task, World]]:
    worlds = {world.seed: world for world in source.worlds}
    return [(task, worlds[task.metadata["world"]]) for task in source.load()]


def test_too_many_questions_are_refused_with_the_number_that_there_is() -> None:
    with pytest.raises(TaskError, match=r"holds \d+ questions .* size=5000 was asked for; raise worlds"):
        source(worlds=1, size=5000).load()


def test_wrong_and_idle_options_are_refused() -> None:
    for options in ({"hops": (4,)}, {"hops": ()}, {"kinds": ("riddle",)}, {"world_size": 3}, {"colour": 1}):
        with pytest.raises(ValidationError):
            source(**options)
    assert "kinds" in MiniWiki.idle_options(MiniWiki.Config(hops=(1,), kinds=("compositional", "comparison")))
    assert not MiniWiki.idle_options(MiniWiki.Config())
