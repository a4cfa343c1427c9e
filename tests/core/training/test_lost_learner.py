"""A run whose learner is lost goes on with a new one from the newest checkpoint, unless it is lost again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_run import Notes, overrides

from agent_r1_core import train
from agent_r1_core.assembly.local_roles import LocalLearner
from agent_r1_core.errors import LearnerLost
from agent_r1_core.training import attempts


@pytest.fixture
def keys(noise: Path, tmp_path: Path) -> list[str]:
    changed = {"model__name": noise, "run__dir": tmp_path, "run__name": "run", "evaluation__at_start": "false"}
    return overrides(tmp_path, 4, rewards="[exact_match]", checkpoint__best="null", evaluation__every=4, **changed)


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
    notes = Notes()
    run = train("default", keys, listener=notes)
    assert [line["step"] for line in run.metrics()] == run.trajectory_steps() == [1, 2, 3, 4]
    said = "new learner workers go on after step "
    after = [text.removeprefix(said) for text in notes.said if text.startswith(said)]
    assert after == ["0", "0", "2", "2", "3", "3"]
    assert notes.said.count(f"writing to {run.path}") == 1, "it is told where the run begins"


def test_one_that_reaches_none_ends_and_says_so(keys: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lose(monkeypatch, 2, 2, 2)
    with pytest.raises(LearnerLost, match=r"is lost; the learner was lost 3 times before .*start or resume the run"):
        train("default", keys, listener=Notes())


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
        train("default", keys, listener=Notes())
