"""`tasks.train` takes one source or several by name, which are mixed by weights; what is wrong is always said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_r1_core.config import load_config

Refused = Callable[..., str]

TWO = "tasks.train={wiki: {name: miniwiki, hops: [1], weight: 2}, sums: arithmetic}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two.yaml"
    path.write_text(
        "extends: default\ntasks:\n  train:\n    wiki: {name: miniwiki, hops: [1], weight: 2}\n    sums: arithmetic\n"
    )
    return path


def test_named_sources_take_the_place_of_a_single_one_and_back(file: Path) -> None:
    for resolved in (load_config("default", [TWO]), load_config(file)):
        sets = resolved.config.tasks.train_sets
        assert {name: (block.name, block.weight) for name, block in sets.items()} == {
            "sums": ("arithmetic", 1.0),
            "wiki": ("miniwiki", 2.0),
        }
        assert list(sets) == ["sums", "wiki"], "sorted, so that the order of a mixture is that of its names"
        assert sets["wiki"].config.size == 1000, "the defaults of the source, not the options of the one replaced"
    single = load_config(file, ["tasks.train=arithmetic"]).config.tasks
    assert list(single.train_sets) == ["train"]


def test_overrides_reach_into_a_set_add_one_and_replace_one(file: Path) -> None:
    keys = ["tasks.train.sums.size=20", "tasks.train.math=gsm8k", "tasks.train.wiki.name=arithmetic"]
    sets = load_config(file, [*keys, "tasks.train.math.weight=0.5"]).config.tasks.train_sets
    assert sets["sums"].config.size == 20
    assert sets["math"].weight == 0.5
    assert (sets["wiki"].name, sets["wiki"].weight) == ("arithmetic", 2.0), "the place keeps its weight"


def test_the_record_of_a_run_reads_back_as_the_same(tmp_path: Path) -> None:
    resolved = load_config("default", [TWO, "tasks.train.sums.size=20"])
    (tmp_path / "config.yaml").write_text(resolved.yaml())
    again = load_config(tmp_path / "config.yaml")
    assert again.config == resolved.config
    assert again.sources == resolved.sources


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("tasks.train.sums.sze=3", "(override 'tasks.train.sums.sze=3') is not a key (did you mean"),
        ("tasks.train.sums.wieght=3", "is not a key (did you mean tasks.train.sums.weight?)"),
        ("tasks.train.sums=arithmetics", "tasks.train.sums.name (override 'tasks.train.sums=arithmetics') cannot be"),
        ("tasks.train.more.size=3", "tasks.train.more.name (override 'tasks.train.more.size=3') is missing; add it"),
        ("tasks.train.size=3", "tasks.train.size (override 'tasks.train.size=3') must be keys with values, not 3"),
        ("tasks.train.status=arithmetic", "(override 'tasks.train.status=arithmetic') cannot be a set's name"),
        ("tasks.train.sums.weight=0", "tasks.train.sums.weight (override 'tasks.train.sums.weight=0') must be greater"),
        ("tasks.train.sums.values=[1]", "is not a key"),
    ],
)  # fmt: skip
def test_a_mistake_names_the_set_and_the_key(refused: Refused, file: Path, override: str, sentence: str) -> None:
    assert sentence in refused(override, recipe=file)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["tasks.eval.weight=2"], "tasks.eval.weight (override 'tasks.eval.weight=2') has no effect here: it is the"),
        (["tasks.eval={a: {name: arithmetic, weight: 2}}"], "each evaluation set is scored by itself; remove it"),
        (["tasks.train.weight=2"], "share of one of several training sets, and there is a single one; remove it"),
        (["tasks.train={a: {name: arithmetic, weight: 2}}"], "tasks.train.a.weight (override"),
    ],
)
def test_a_weight_without_effect_is_refused(refused: Refused, overrides: list[str], sentence: str) -> None:
    assert sentence in refused(*overrides)
