"""Which tasks are trained on and which are evaluated, and that a run's own record decides about the latter."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_r1_core.config import ResolvedConfig, load_config
from agent_r1_core.errors import ConfigError, RunError, TaskError
from agent_r1_core.runs.evaluation_tasks import EvaluationTasks
from agent_r1_core.runs.run import Run
from agent_r1_core.training.task_sets import TaskSet, load_tasks, record, set_names

SETS = "tasks.eval={sums: {name: arithmetic, split: eval, size: 30}, wiki: {name: miniwiki, split: eval, size: 20}}"


def recipe(*overrides: str, evaluation: str = "tasks.eval=null") -> ResolvedConfig:
    return load_config("default", ["tasks.train={name: arithmetic, size: 300}", evaluation, *overrides])


def load(resolved: ResolvedConfig, *names: str, run: Path | None = None) -> dict[str, TaskSet]:
    return load_tasks(resolved, names, lambda text: None, run)


def ids(one: TaskSet) -> list[str]:
    return [task.id for task in one.tasks]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of 300 tasks that holds out 20."""
    with Run.create(tmp_path, "run", {}, []) as begun:
        begun.write_evaluation_tasks(record(load(recipe("evaluation.size=20"), "train", "eval")))
    return begun.path


def test_held_out_tasks_are_drawn_once_and_then_those_of_the_run(run: Path) -> None:
    first = load(recipe("evaluation.size=20"), "train", "eval")
    assert len(first["eval"].tasks) == 20
    assert not set(ids(first["train"])) & set(ids(first["eval"]))
    other = recipe("seed=7", "evaluation.size=30")
    assert set(ids(load(other, "eval")["eval"])) - set(ids(first["eval"])), "drawn again, there would be others"
    again = load(other, "train", "eval", run=run)
    assert ids(again["eval"]) == ids(first["eval"])
    assert ids(again["train"]) == ids(first["train"])
    fewer = load(recipe("evaluation.size=5"), "train", "eval", run=run)
    assert ids(fewer["eval"]) == ids(first["eval"])[:5]
    assert ids(fewer["train"]) == ids(first["train"]), "what was held out stays held out"
    assert record(fewer).held_out == record(first).held_out


def test_what_the_run_did_not_hold_out_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(
        TaskError, match=r"held out 20 tasks, but tasks.train \(arithmetic\) has only \d+ of them; give it the data"
    ):
        load(recipe("tasks.train.size=40"), "eval", run=run)
    with Run.create(tmp_path, "other", {}, []) as other:
        other.write_evaluation_tasks(EvaluationTasks({"eval": ("a",)}))
    with pytest.raises(RunError, match=r"records no held-out tasks, .*; set tasks.eval to a source of other tasks"):
        load(recipe(), "eval", run=other.path)


def test_named_sets_have_tasks_of_their_own_and_the_same_bound() -> None:
    resolved = recipe("evaluation.size=10", evaluation=SETS)
    sets = load(resolved, *set_names(resolved.config, "eval"))
    assert {name: len(one.tasks) for name, one in sets.items()} == {"sums": 10, "wiki": 10}
    assert record(sets).held_out is None
    assert list(load(resolved, "wiki")) == ["wiki"]
    with pytest.raises(ConfigError, match=r"no task set 'wikis'; the sets are train, sums, wiki"):
        set_names(resolved.config, "wikis")


def test_a_random_sample_is_the_seeds_and_not_the_first() -> None:
    first = ids(load(recipe("evaluation.size=10", evaluation=SETS), "sums")["sums"])
    drawn = [
        ids(
            load(recipe("evaluation.size=10", "evaluation.sample=random", f"seed={seed}", evaluation=SETS), "sums")[
                "sums"
            ]
        )
        for seed in (0, 0, 1)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0] != first
    assert len(set(drawn[0])) == 10
