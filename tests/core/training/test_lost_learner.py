"""A run whose learner is lost goes on with a new one from the newest checkpoint, unless it is lost again and again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_run import Notes, run_once

from agent_r1_core import Run
from agent_r1_core.assembly.local_roles import LocalLearner
from agent_r1_core.errors import LearnerLost
from agent_r1_core.training import attempts


@pytest.fixture
def trained(noise: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """`trained(notes, 1, 1)`: four steps, which lose the learner when it is to learn from step 1, twice."""
    update = LocalLearner.update

    def train(notes: Notes, *steps: int) -> Run:
        left = list(steps)

        async def lost(self: LocalLearner, groups: Any, step: int) -> Any:
            if step in left:
                left.remove(step)
                raise LearnerLost("a learner worker is lost")
            return await update(self, groups, step)

        monkeypatch.setattr(LocalLearner, "update", lost)
        changed = {"model__name": noise, "evaluation__at_start": "false", "checkpoint__best": "null"}
        return run_once(tmp_path, "run", 4, listener=notes, evaluation__every=4, **changed)

    return train


def test_a_run_goes_on_as_often_as_it_reaches_checkpoints(trained: Callable[..., Run]) -> None:
    notes = Notes()
    run = trained(notes, 1, 1, 3, 3, 4, 4)
    assert [line["step"] for line in run.metrics()] == run.trajectory_steps() == [1, 2, 3, 4]
    said = "new learner workers go on after step "
    after = [text.removeprefix(said) for text in notes.said if text.startswith(said)]
    assert after == ["0", "0", "2", "2", "3", "3"]
    assert notes.said.count(f"writing to {run.path}") == 1, "it is told where the run begins"


def test_one_that_reaches_none_ends_and_says_so(trained: Callable[..., Run]) -> None:
    with pytest.raises(LearnerLost, match=r"is lost; the learner was lost 3 times before .*start or resume the run"):
        trained(Notes(), 2, 2, 2)


def test_an_interruption_between_two_learners_says_how_to_go_on(
    trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(attempts, "reassemble", interrupted)
    said = r"stopped after step 1 of 4; continue with: agent-r1 train .*run --res"
    with pytest.raises(KeyboardInterrupt, match=said):
        trained(Notes(), 2)
