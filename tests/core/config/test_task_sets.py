"""`tasks.train` and `tasks.eval` take one source or several by name; which is meant, and what is wrong, is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_r1_core.config import load_config

TWO = "{wiki: {name: miniwiki, split: eval, weight: 2}, sums: arithmetic}"
UNWEIGHED = TWO.replace(", weight: 2", "")
OF = {"train": TWO, "eval": UNWEIGHED}


@pytest.fixture(params=["train", "eval"])
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two.yaml"
    path.write_text(f"extends: default\ntasks:\n  train: {TWO}\n  eval: {UNWEIGHED}\n")
    return path


def test_named_sources_take_the_place_of_a_single_one_and_back(file, place):
    for resolved in (load_config("default", [f"tasks.{place}={OF[place]}"]), load_config(file)):
        sets = getattr(resolved.config.tasks, f"{place}_sets")
        assert {name: block.name for name, block in sets.items()} == {"sums": "arithmetic", "wiki": "miniwiki"}
        assert sets["wiki"].config.size == 1000, "the defaults of the source, not the options of the one replaced"
        if place == "train":
            assert {name: block.weight for name, block in sets.items()} == {"sums": 1.0, "wiki": 2.0}
            assert list(sets) == ["sums", "wiki"], "sorted, so that the order of a mixture is that of its names"
    single = load_config(file, [f"tasks.{place}=arithmetic"]).config.tasks
    assert list(getattr(single, f"{place}_sets")) == [place]


def test_overrides_reach_into_a_set_add_one_and_replace_one(file, place):
    keys = ["sums.size=20", "math=gsm8k", "wiki.name=arithmetic", *(["math.weight=0.5"] if place == "train" else [])]
    resolved = load_config(file, [f"tasks.{place}.{key}" for key in keys])
    sets = getattr(resolved.config.tasks, f"{place}_sets")
    assert sets["sums"].config.size == 20
    assert list(sets) == (["math", "sums", "wiki"] if place == "train" else ["wiki", "sums", "math"])
    assert sets["wiki"].name == "arithmetic"
    kept = resolved.dump()["tasks"][place]["wiki"]
    assert "hops" not in kept, "another component brings its own options"
    if place == "train":
        assert (sets["math"].weight, sets["wiki"].weight) == (0.5, 2.0), "the place keeps its weight"


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("sums.sze=3", "is not a key (did you mean tasks.PLACE.sums.size?)"),
        ("sums.wieght=3", "is not a key (did you mean tasks.PLACE.sums.weight?)"),
        ("sums=arithmetics", "tasks.PLACE.sums.name (override 'tasks.PLACE.sums=arithmetics') cannot be used"),
        ("more.size=3", "tasks.PLACE.more.name (override 'tasks.PLACE.more.size=3') is missing; add it"),
        ("size=3", "tasks.PLACE.size (override 'tasks.PLACE.size=3') must be keys with values, not 3"),
        ("reward=arithmetic", "(override 'tasks.PLACE.reward=arithmetic') cannot be a set's name"),
        ("name={name: arithmetic}", "(override 'tasks.PLACE.name={name: arithmetic}') cannot be a set's name"),
        ("sums.weight=0", "tasks.PLACE.sums.weight (override 'tasks.PLACE.sums.weight=0') must be greater"),
    ],
)
def test_a_mistake_names_the_set_and_the_key(refused, file, place, override, sentence):
    assert sentence.replace("PLACE", place) in refused(f"tasks.{place}.{override}", recipe=file)


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("tasks.eval.weight=2", "tasks.eval.weight (override 'tasks.eval.weight=2') has no effect here: it is the"),
        ("tasks.eval={a: {name: arithmetic, weight: 2}}", "each evaluation set is scored by itself; remove it"),
        ("tasks.train.weight=2", "share of one of several training sets, and there is a single one; remove it"),
        ("tasks.train={a: {name: arithmetic, weight: 2}}", "tasks.train.a.weight (override"),
        ("evaluation.sample=random", "evaluation.size is not set"),
    ],
)
def test_what_has_no_effect_on_the_sets_is_refused(refused, override, sentence):
    assert sentence in refused(override)


def test_the_set_that_chooses_is_one_of_several(refused):
    two = f"tasks.eval={UNWEIGHED}"
    chosen = load_config("default", [two, "evaluation.choose_on=sums"]).config
    assert chosen.best_metric == "eval/sums/exact_match"
    assert load_config("default", [two, "checkpoint.best=eval/wiki/f1"]).config.best_metric == "eval/wiki/f1"
    assert load_config("default").config.best_metric == "eval/exact_match"
    assert "must be one of the sets wiki, sums of tasks.eval, not 'sum'" in refused(two, "evaluation.choose_on=sum")
    assert "needs several named sets in tasks.eval" in refused("evaluation.choose_on=sums")
    assert "sums is the only set" in refused("tasks.eval={sums: {name: arithmetic}}", "evaluation.choose_on=sums")
    assert "name the same set in both" in refused(two, "evaluation.choose_on=sums", "checkpoint.best=eval/wiki/f1")
    assert "nothing is chosen" in refused(two, "evaluation.choose_on=sums", "checkpoint.best=null")
