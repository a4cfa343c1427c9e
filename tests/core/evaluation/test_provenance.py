"""A report says which passages were searched, what chose the checkpoint, and whether its tasks were trained on."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_r1_core import Run, Task
from agent_r1_core.assembly.model_source import ModelSource
from agent_r1_core.evaluation.provenance import corpus, provenance
from agent_r1_core.runs.evaluation_file import EvaluationTasks
from agent_r1_core.runs.trajectory_file import write_trajectories
from agent_r1_core.testing.trajectories import make_task, make_trajectory


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Three steps, each trains on a task of its own, and a checkpoint after each; the second is the best."""
    with Run.create(tmp_path, "first", {}, []) as made:
        made.write_evaluation_tasks(EvaluationTasks({"dev": ("a", "b"), "test": ("c",)}))
        for step in (1, 2, 3):
            write_trajectories(made.trajectory_file(step), step, [make_trajectory(task=task(f"t{step}"))] * 2)
            made.append_metrics(step, {})
            value = 1.0 if step == 2 else 0.5
            made.checkpoints.save(step, lambda folder: None, keep=9, metric="eval/dev/exact_match", value=value)
    return made


def task(name: str, prompt: str | None = None) -> Task:
    return make_task(name, prompt or f"Where? {name}", ("Rome",))


def stated(run: Run, *tasks: Task) -> dict[str, str]:
    return provenance(ModelSource(run.policy().folder, "run", run.path, run.policy()), tasks, {})


def test_a_corpus_is_named_with_its_size_and_its_hash() -> None:
    own = {"wiki_search": {"passages": 960, "corpus": "tasks.eval", "hash": "ab12"}, "calculator": {"digits": 9}}
    assert corpus(own) == "wiki_search searches 960 passages that come with the questions (tasks.eval), hash ab12"
    assert (
        corpus({"search": {"passages": 6119, "corpus": "wiki.jsonl"}}) == "search searches 6119 passages of wiki.jsonl"
    )
    assert corpus({"calculator": {}}) == "none: no tool searches passages"


def test_the_choice_of_a_checkpoint_is_told_with_the_tasks_that_made_it_or_that_there_was_none(run: Run) -> None:
    chosen = f"best checkpoint of {run.path}, step 2, chosen by eval/dev/exact_match among 3, on 2 tasks; "
    assert stated(run, task("c"))["checkpoint"] == f"{chosen}none of them is scored here"
    assert stated(run, task("b"), task("c"))["checkpoint"] == f"{chosen}1 of them are scored here"
    (run.path / "evaluation_tasks.json").unlink()
    told = stated(run, task("c"))["checkpoint"]
    assert told.endswith(" among 3, on tasks that are not known: the run lacks its evaluation_tasks.json")
    with Run.resume(run.path) as resumed:
        resumed.checkpoints.discard_after(0)
        resumed.write_model(lambda folder: None)
    assert stated(run, task("c"))["checkpoint"] == f"final policy of {run.path}, step 3; no score chose it"
    bundled = provenance(ModelSource(run.model, "bundled"), [task("c")], {})
    assert bundled["checkpoint"].endswith("(bundled): no run here trained it, and no score here chose it")
    assert bundled["held_out"] == "not known: no run here trained the model"


def test_tasks_that_were_trained_on_up_to_the_policys_step_are_counted(run: Run) -> None:
    """The best policy is that of step 2, so the task of step 3 is as good as any other."""
    assert stated(run, task("c"), task("t3"))["held_out"] == "none of these 2 tasks is in first's training"
    told = stated(run, task("c"), task("t1"), task("t2"))["held_out"]
    assert told == "2 of these 3 tasks are in first's training: the scores are likely too high"
    assert stated(run, task("t1", "Who?"))["held_out"].startswith("none"), "another question under that id"
    assert stated(run, task("u1", "Where? t1"))["held_out"].startswith("1 of these 1"), "that question under another id"
    lost = run.path / "trajectories" / "step_000001.parquet"
    lost.unlink()
    assert stated(run, task("c"))["held_out"] == f"not known: {run.path} keeps the trajectories of 1 of 2 steps"
    lost.write_text("torn")
    assert "not known: " in stated(run, task("c"))["held_out"]
