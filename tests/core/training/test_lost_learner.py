"""A run whose learner is lost goes on from its newest checkpoint, ends in a sentence, or stops when it is told to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_r1_core import train
from agent_r1_core.assembly.local_roles import LocalLearner
from agent_r1_core.errors import LearnerLost
from agent_r1_core.evaluation.listener import Silence
from agent_r1_core.testing import tiny_model_folder
from agent_r1_core.training import attempts

KEYS = (
    *("model.dtype=float32", "threads=1", "tasks.train={name: arithmetic, size: 4}", "tools=[calculator]"),
    *("tasks.eval={name: arithmetic, split: eval, size: 4}", "env.max_turns=2", "engine.max_new_tokens=4"),
    *("training.steps=4", "training.tasks_per_step=2", "training.samples_per_task=2", "checkpoint.every=1"),
    *("evaluation.every=4", "evaluation.at_start=false", "run.name=run"),
)


@pytest.fixture
def keys(tmp_path: Path) -> list[str]:
    return [*KEYS, f"model.name={tiny_model_folder(tmp_path / 'model')}", f"run.dir={tmp_path}"]


def lose(monkeypatch: pytest.MonkeyPatch, *steps: int) -> None:
    """Lose the learner when it is to learn from a step, once for each time that the step is given."""
    update, left = LocalLearner.update, list(steps)

    async def lost(self: LocalLearner, groups: Any, step: int) -> Any:
        if step in left:
            left.remove(step)
            raise LearnerLost("a learner worker is lost")
        return await update(self, groups, step)

    monkeypatch.setattr(LocalLearner, "update", lost)


def test_a_run_goes_on_as_often_as_it_reaches_checkpoints(keys: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lose(monkeypatch, 1, 1, 3, 3, 4, 4)
    run = train("default", keys, listener=Silence())
    assert [line["step"] for line in run.metrics()] == run.trajectory_steps() == [1, 2, 3, 4]


def test_one_that_reaches_none_ends_and_says_so(keys: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lose(monkeypatch, 2, 2, 2)
    with pytest.raises(LearnerLost, match=r"is lost; the learner was lost 3 times before .*start or resume the run"):
        train("default", keys, listener=Silence())


def test_an_interruption_between_two_learners_says_how_to_go_on(
    keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    lose(monkeypatch, 2)
    monkeypatch.setattr(attempts, "reassemble", interrupted)
    with pytest.raises(
        KeyboardInterrupt, match=r"stopped after step 1 of 4; continue with: agent-r1 train .*run --res"
    ):
        train("default", keys, listener=Silence())
