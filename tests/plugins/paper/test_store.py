"""The folder of a matrix belongs to one scale and to recipes as they were when it began."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from agent_r1_paper.matrix import Matrix
from agent_r1_paper.store import Store
from agent_r1_paper.tables import SCALES

from agent_r1_core.errors import ConfigError, RunError

Make = Callable[..., Matrix]


def test_a_folder_that_exists_needs_resume_and_holds_one_matrix(matrix: Make, store: Store) -> None:
    small = matrix("table3")
    with pytest.raises(RunError, match=r"holds no matrix yet; leave out --resume"):
        store.open(small, resume=True)
    assert not store.path.exists()
    store.open(small, resume=False)
    assert small.sets == {"HotpotQA": "films", "2Wiki": "people", "MuSiQue": "companies_and_cities"}
    with pytest.raises(RunError, match=r"exists already; continue it with --resume, or name another folder with --dir"):
        store.open(small, resume=False)
    store.open(matrix("table3", seeds=5), resume=True)
    with pytest.raises(RunError, match=r"holds a matrix with overrides \[\], not \['training\.steps=9'\]; name"):
        store.open(matrix("table3", overrides=("training.steps=9",)), resume=True)


def test_recipes_must_fit_the_table_row_by_row(matrix: Make, store: Store) -> None:
    one = matrix("table3", overrides=("tasks.eval={name: miniwiki, size: 4}", "evaluation.choose_on=null"))
    with pytest.raises(ConfigError, match=r"reports 1 evaluation sets, but table3 has a column for each of HotpotQA"):
        _ = one.configs
    too_few = "training.steps=2"
    store.open(matrix("table3", overrides=(too_few,), rows=("grpo",)), resume=False)
    with pytest.raises(ConfigError, match=r"training\.critic_warmup .*miniwiki-ppo.* is 2 and must be below"):
        store.open(matrix("table3", overrides=(too_few,)), resume=True)


def test_a_changed_recipe_is_refused_with_the_key(matrix: Make, store: Store) -> None:
    store.open(matrix("table3"), resume=False)
    marker = store.path / "matrix.json"
    content = json.loads(marker.read_text())
    content["rows"]["ppo"]["training"]["lr"] = 0.5
    marker.write_text(json.dumps(content))
    sentence = r"the recipe paper/miniwiki-ppo has changed since .* began \(ppo: training\.lr was 0\.5 and is 0\.0003\)"
    with pytest.raises(RunError, match=sentence):
        store.open(matrix("table3"), resume=True)


def test_a_damaged_record_is_named(matrix: Make, store: Store) -> None:
    small = matrix("table4")
    store.open(small, resume=False)
    (store.path / "cells" / "ppo-0.json").write_text('{"schema": 1}')
    with pytest.raises(RunError, match=r"cells/ppo-0\.json is damaged: it has no 'cell'; delete it to run the cell"):
        store.record(small.cells()[0])


def test_a_folder_of_something_else_is_left_alone(matrix: Make, store: Store) -> None:
    store.path.mkdir()
    (store.path / "thesis.txt").write_text("mine")
    for resume in (False, True):
        with pytest.raises(RunError, match=r"exists and is no folder of agent-r1 reproduce; name another folder"):
            store.open(matrix("table3"), resume=resume)
    assert [path.name for path in store.path.iterdir()] == ["thesis.txt"]


def test_a_table_may_have_changes_of_its_own_that_give_way_to_those_of_the_user() -> None:
    tiny, paper = SCALES["tiny"], SCALES["paper"]
    assert tiny.overrides("table4", []) == ("training.steps=6", "evaluation.greedy=false")
    given = ["training.steps=25", "training.lr=1e-4"]
    assert tiny.overrides("table4", given) == ("evaluation.greedy=false", *given)
    assert tiny.overrides("table3", given) == paper.overrides("table4", given) == tuple(given)
    assert tiny.folder("table3") != tiny.folder("table4"), "they would refuse each other's configuration"
    assert paper.folder("table3") == paper.folder("table4"), "so that what both have is trained once"
