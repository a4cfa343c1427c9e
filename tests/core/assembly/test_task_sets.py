"""Which tasks are trained on and which are evaluated, and that a run's own record decides about the latter."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from agent_r1_arithmetic.source import Arithmetic

from agent_r1_core.assembly.task_notes import describe_mixture, describe_overlap, describe_shared
from agent_r1_core.assembly.task_sets import TaskSet, load_tasks, record, set_names, training_order
from agent_r1_core.config import ResolvedConfig, load_config
from agent_r1_core.errors import ConfigError, RunError, TaskError
from agent_r1_core.runs.evaluation_file import EvaluationTasks
from agent_r1_core.runs.run import Run
from agent_r1_core.testing import make_task

SETS = "tasks.eval={sums: {name: arithmetic, split: eval, size: 30}, wiki: {name: miniwiki, split: eval, size: 20}}"


def recipe(*overrides: str, train="{name: arithmetic, size: 300}", evaluation="tasks.eval=null") -> ResolvedConfig:
    return load_config("default", [f"tasks.train={train}", evaluation, *overrides])


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


def test_held_out_tasks_are_drawn_once_and_then_those_of_the_run_and_no_others(run, tmp_path):
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
    with pytest.raises(TaskError, match=r"held out 20 tasks, but tasks.train \(arithmetic\) has only \d+ of them; giv"):
        load(recipe("tasks.train.size=40"), "eval", run=run)
    with Run.create(tmp_path, "other", {}, []) as other:
        other.write_evaluation_tasks(EvaluationTasks({"eval": ("a",)}))
    with pytest.raises(RunError, match=r"records no held-out tasks, .*; set tasks.eval to a source of other tasks"):
        load(recipe(), "eval", run=other.path)


def test_named_sets_have_tasks_of_their_own_and_the_same_bound_and_a_random_sample_is_the_seeds():
    resolved = recipe("evaluation.size=10", evaluation=SETS)
    sets = load(resolved, *set_names(resolved.config, "eval"))
    assert {name: len(one.tasks) for name, one in sets.items()} == {"sums": 10, "wiki": 10}
    assert record(sets).held_out is None
    assert list(load(resolved, "wiki")) == ["wiki"]
    with pytest.raises(ConfigError, match=r"no task set 'wikis'; the sets are train, sums, wiki"):
        set_names(resolved.config, "wikis")

    def sums(*overrides: str) -> list[str]:
        return ids(load(recipe("evaluation.size=10", *overrides, evaluation=SETS), "sums")["sums"])

    drawn = [sums("evaluation.sample=random", f"seed={seed}") for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0] != sums()
    assert len(set(drawn[0])) == 10


MIXED = "{wiki: {name: miniwiki, size: 100}, sums: {name: arithmetic, size: 300, weight: 3}}"


def test_the_tasks_of_several_training_sets_bear_the_names_of_their_sets():
    train = load(recipe(train=MIXED), "train")["train"]
    assert train.sizes == {"sums": 300, "wiki": 100}
    alone = load(load_config("default", ["tasks.train={name: miniwiki, size: 100}"]), "train")["train"]
    assert [task.id for task in train.tasks[300:]] == [task.id for task in alone.tasks]
    assert [one.metadata for one in train.tasks[300:]] == [{**one.metadata, "source": "wiki"} for one in alone.tasks]
    twins = recipe(train="{a: {name: arithmetic, size: 30}, b: {name: arithmetic, size: 3}}")
    with pytest.raises(TaskError, match=r"tasks.train.a and tasks.train.b both have a task with the id .*; choose"):
        load(twins, "train")


def test_of_several_training_sets_the_shares_are_held_out(tmp_path):
    said: list[str] = []
    resolved = recipe("evaluation.size=20", train=MIXED)
    first = load_tasks(resolved, ["train", "eval"], said.append)
    sources = [task.metadata["source"] for task in first["eval"].tasks]
    assert (sources.count("sums"), sources.count("wiki")) == (15, 5)
    assert sources[:8].count("wiki") == 2, "mixed, so that the first ones are a sample of all sets"
    assert said == ["tasks.eval is not set: 20 of 400 training tasks are held out for evaluation (sums 15, wiki 5)"]
    assert first["train"].sizes == {"sums": 285, "wiki": 95}
    assert not set(ids(first["train"])) & set(ids(first["eval"]))
    with Run.create(tmp_path, "run", {}, []) as begun:
        begun.write_evaluation_tasks(record(first))
    again = load(recipe("seed=7", train=MIXED), "train", "eval", run=begun.path)
    assert (ids(again["eval"]), ids(again["train"])) == (ids(first["eval"]), ids(first["train"]))
    fewer = load(recipe("evaluation.size=4", train=MIXED), "eval", run=begun.path)
    assert ids(fewer["eval"]) == ids(first["eval"])[:4]
    little = load(recipe("evaluation.size=20", train=MIXED.replace("size: 100", "size: 12")), "train", "eval")
    assert little["train"].sizes == {"sums": 285, "wiki": 11}, "at most a tenth of a set"


def test_training_sets_are_mixed_by_their_weights_and_small_ones_are_named():
    config = recipe("training.tasks_per_step=8", train=MIXED).config
    train = load(recipe(train=MIXED), "train")["train"]
    step, _ = training_order(config, train).draw(8)
    assert [train.tasks[task].metadata["source"] for task in step].count("wiki") == 2
    assert describe_mixture(config, train) == [
        "the training tasks are mixed from sums (0.75 of the tasks played, has 300), "
        "wiki (0.25 of the tasks played, has 100)"
    ]
    few = recipe(train="{a: {name: miniwiki, size: 30}, b: {name: arithmetic, size: 3}}")
    a, b = (training_order(few.config, load(few, "train")["train"]).orders[name] for name in "ab")
    assert a.seed != b.seed, "sets of one size are not shuffled alike"
    _, small = describe_mixture(few.config, load(few, "train")["train"])
    assert small.startswith("training.tasks_per_step is 16, of which 8 would be of b, but it has only 3: every step")


def test_tasks_of_one_id_are_refused_and_a_source_that_ends_the_process_is_an_error(monkeypatch):
    monkeypatch.setattr(Arithmetic, "load", lambda self: [make_task("one"), make_task("two"), make_task("one")])
    with pytest.raises(TaskError, match=r"tasks.train \(arithmetic\) has several tasks with the id 'one'"):
        load(recipe(), "train")
    for code in (0, 3):  # with 0 the command would end as if all were well
        monkeypatch.setattr(Arithmetic, "load", lambda self, code=code: sys.exit(code))
        with pytest.raises(TaskError, match=rf"tasks.train \(arithmetic\) gave no tasks: SystemExit: {code}"):
            load(recipe(), "train")


def asked_twice(tmp_path: Path, *names: str) -> ResolvedConfig:
    """Files of questions that have the first five in common, under other ids."""
    sets = []
    for place, name in enumerate(names):
        lines = [{"question": f"Where? {k if k < 5 else k + 100 * place}", "answer": "Rome"} for k in range(20)]
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in (*lines, *(lines if len(names) == 1 else ()))))
        sets.append(f"{{name: qa, path: {file}}}")
    return recipe("tools=[]", train=sets[0], evaluation=f"tasks.eval={sets[1] if sets[1:] else 'null'}")


def test_questions_that_are_scored_and_trained_on_are_named_whatever_their_ids(tmp_path: Path) -> None:
    two, one = asked_twice(tmp_path, "mine", "dev"), asked_twice(tmp_path, "mine")
    (shared,) = describe_shared(two, load(two, "train", "eval"))
    assert shared.startswith("tasks.eval has tasks of tasks.train: the scores are likely too high; give one of them")
    (repeated,) = describe_shared(one, load(one, "train", "eval"))
    assert repeated.startswith("tasks.train has questions more than once, so that some that are held out are trained")
    ours = load_config("default", [])
    assert describe_shared(ours, load(ours, "train", "eval")) == [], "a recipe of the package may"


def test_evaluation_sets_that_ask_the_same_are_named(tmp_path: Path) -> None:
    asked_twice(tmp_path, "one", "two", "three")
    files = ", ".join(f"{name}: {{name: qa, path: {tmp_path / name}.jsonl}}" for name in ("one", "two", "three"))
    resolved = recipe("tools=[]", "evaluation.choose_on=three", evaluation=f"tasks.eval={{{files}}}")
    both, *chosen = describe_overlap(resolved.config, load(resolved, "one", "two", "three"))
    assert both.startswith("the evaluation sets one and two share 5 questions, so means, intervals")
    assert ["chosen on questions that are scored" in one for one in chosen] == [True, True]


def test_other_questions_under_the_same_ids_are_seen(tmp_path: Path) -> None:
    resolved = asked_twice(tmp_path, "mine", "dev")
    before = record(load(resolved, "train", "eval"))
    assert EvaluationTasks.from_json(before.to_json()) == before
    file = tmp_path / "mine.jsonl"
    file.write_text(file.read_text().replace("Rome", "Oslo", 1))
    assert before.changed_in(record(load(resolved, "train", "eval"))) == ["train"]
    fewer = resolved.replace({"evaluation.size": 5})
    assert before.changed_in(record(load(fewer, "train", "eval"))) == ["train"], "fewer of the same are no others"
