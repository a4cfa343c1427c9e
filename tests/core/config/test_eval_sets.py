"""`tasks.eval` takes one source or several by name; which of the two is meant, and what is wrong, is always said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_r1_core.config import ResolvedConfig, load_config

Refused = Callable[..., str]

TWO = "tasks.eval={wiki: {name: miniwiki, split: eval}, sums: arithmetic}"


def sets(*overrides: str, recipe: Path | str = "default") -> dict[str, dict[str, object]]:
    resolved = load_config(recipe, overrides)
    return {name: resolved.dump()["tasks"]["eval"][name] for name in resolved.config.tasks.eval_sets}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two.yaml"
    path.write_text(
        "extends: default\ntasks:\n  eval:\n    wiki: {name: miniwiki, split: eval}\n    sums: arithmetic\n"
    )
    return path


def test_named_sources_take_the_place_of_a_single_one_and_back(file: Path) -> None:
    for found in (sets(TWO), sets(recipe=file)):
        assert [found[name]["name"] for name in ("wiki", "sums")] == ["miniwiki", "arithmetic"]
        assert found["wiki"]["hops"] == [2], "the defaults of the source, not the options of the one that was replaced"
    single = load_config(file, ["tasks.eval=arithmetic"]).config.tasks
    assert list(single.eval_sets) == ["eval"]


def test_overrides_reach_into_a_set_add_one_and_replace_one(file: Path) -> None:
    found = sets("tasks.eval.sums.size=20", "tasks.eval.math=gsm8k", "tasks.eval.wiki.name=arithmetic", recipe=file)
    assert found["sums"]["size"] == 20
    assert list(found) == ["wiki", "sums", "math"]
    assert "split" in found["wiki"]
    assert "hops" not in found["wiki"], "another component brings its own options"


def test_the_record_of_a_run_reads_back_as_the_same(tmp_path: Path) -> None:
    resolved: ResolvedConfig = load_config("default", [TWO, "tasks.eval.sums.size=20"])
    (tmp_path / "config.yaml").write_text(resolved.yaml())
    again = load_config(tmp_path / "config.yaml")
    assert again.config == resolved.config
    assert again.sources == resolved.sources


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("tasks.eval.sums.sze=3", "is not a key (did you mean tasks.eval.sums.size?)"),
        ("tasks.eval.sums=arithmetics", "tasks.eval.sums.name (override 'tasks.eval.sums=arithmetics') cannot be used"),
        ("tasks.eval.more.size=3", "tasks.eval.more.name (override 'tasks.eval.more.size=3') is missing; add it"),
        ("tasks.eval.size=3", "tasks.eval.size (override 'tasks.eval.size=3') must be keys with values, not 3"),
        ("tasks.eval.reward=arithmetic", "(override 'tasks.eval.reward=arithmetic') cannot be a set's name"),
    ],
)  # fmt: skip
def test_a_mistake_names_the_set_and_the_key(refused: Refused, file: Path, override: str, sentence: str) -> None:
    assert sentence in refused(override, recipe=file)


def test_the_set_that_chooses_is_one_of_several(refused: Refused) -> None:
    chosen = load_config("default", [TWO, "evaluation.choose_on=sums"]).config
    assert chosen.best_metric == "eval/sums/exact_match"
    assert load_config("default", [TWO, "checkpoint.best=eval/wiki/f1"]).config.best_metric == "eval/wiki/f1"
    assert load_config("default").config.best_metric == "eval/exact_match"
    assert "must be one of the sets wiki, sums of tasks.eval, not 'sum'" in refused(TWO, "evaluation.choose_on=sum")
    assert "needs several named sets in tasks.eval" in refused("evaluation.choose_on=sums")
    assert "sums is the only set" in refused("tasks.eval={sums: {name: arithmetic}}", "evaluation.choose_on=sums")
    assert "name the same set in both" in refused(TWO, "evaluation.choose_on=sums", "checkpoint.best=eval/wiki/f1")
    assert "nothing is chosen" in refused(TWO, "evaluation.choose_on=sums", "checkpoint.best=null")


def test_a_sample_without_a_size_is_idle(refused: Refused) -> None:
    assert "evaluation.size is not set" in refused("evaluation.sample=random")
