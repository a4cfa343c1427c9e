"""The first run of the README, shortened: the default recipe teaches the bundled model to search, not to guess."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_r1_core import Run, train
from agent_r1_core.evaluation.evaluator import EvaluationPlan
from agent_r1_core.training.api import evaluate, resolve


def test_ten_steps_of_the_default_recipe_teach_the_search(tmp_path: Path) -> None:
    run = train("default", ["training.steps=10", "evaluation.every=0", "tasks.eval.size=80", f"run.dir={tmp_path}"])
    assert run.health() == "health: healthy, no alarm in 10 steps"
    before, after = (found["metrics"]["exact_match"] for found in run.evaluations().values())
    assert before["mean"] <= 0.45
    assert after["low"] >= 0.75
    assert with_silent_tools(run) <= 0.05


@pytest.mark.gpu
def test_a_step_of_the_default_recipe_runs_on_a_gpu(tmp_path: Path, gpu: str) -> None:
    few = ["training.steps=1", "training.tasks_per_step=4", "evaluation.every=0", "tasks.eval.size=8"]
    run = train("default", [*few, f"model.device={gpu}", f"run.dir={tmp_path}"])
    (step,) = run.metrics()
    assert step["prob_gap"] < 0.01
    assert step["update/grad_norm"] > 0


def with_silent_tools(run: Run) -> float:
    """Exact match of the run's policy when the tool finds nothing."""
    resolved = resolve("default", [f"model.name={run.path}", "tasks.eval.size=40"], training=False)
    found, _ = evaluate(EvaluationPlan(resolved, silence_tools=True))
    return found.result.metrics["exact_match"].mean
