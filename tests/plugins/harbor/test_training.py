"""The recipes of `harbor`, shortened: solutions are shown to the bundled model, which goes on by its own episodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_r1_core import train

SHORT = ["evaluation={every: 0, at_start: false, at_end: false}", "checkpoint.every=100"]


@pytest.mark.slow
def test_the_solutions_are_shown_and_then_its_own_episodes_train(tmp_path: Path) -> None:
    place = [f"run.dir={tmp_path}", *SHORT]
    shown = train("harbor/shown", [*place, "run.name=shown", "training.steps=1"])
    assert [step["reward/mean"] for step in shown.metrics()] == [1], "every solution earns its reward"
    own = ["training.steps=1", "training.samples_per_task=2"]
    (step,) = train("harbor", [*place, "run.name=own", f"model.name={shown.path}", *own]).metrics()
    assert step["rollout/failed"] == 0
