"""A checkpoint that the disk does not take is a sentence, and leaves the one before it."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from agent_r1_grpo.grpo import GRPO

from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.errors import RunError
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.policy import Policy
from agent_r1_core.runs.checkpoints import Checkpoints
from agent_r1_core.runs.run import Run
from agent_r1_core.testing import tiny_model, tiny_model_folder
from agent_r1_core.training.checkpointing import load_trainer_state, save_checkpoint, save_model
from agent_r1_core.training.in_process import LocalLearner
from agent_r1_core.training.task_order import TaskOrder


@pytest.mark.parametrize("state", [{}, [], {"policy": {}, "optimiser": 3}])
def test_a_state_of_something_else_is_named(tmp_path: Path, state: object) -> None:
    learner = Learner(Policy(tiny_model()), GRPO(), TrainingConfig())
    saved = Checkpoints(tmp_path).save(1, lambda folder: torch.save(state, folder / "trainer.pt"))
    with pytest.raises(RunError, match=r"step_000001 cannot be read \(.*; delete it to resume from the previous one"):
        load_trainer_state(learner, saved)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The kernel refuses longer files, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_the_disk_does_not_take_is_named_and_changes_nothing(tmp_path: Path) -> None:
    learner = LocalLearner(Learner(Policy(tiny_model()), GRPO(), TrainingConfig()))
    order = TaskOrder(10, seed=0, shuffle=True)
    with Run.create(tmp_path, "run", {}, []) as run:
        run.keep_model_files(tiny_model_folder(tmp_path / "model"))
        save_checkpoint(learner, order, run, 1, 2, None, {})
        with files_of_at_most(4096), pytest.raises(RunError, match=r"step_000002 could not be written .*; free space"):
            save_checkpoint(learner, order, run, 2, 2, None, {})
        assert [one.step for one in run.checkpoints.all()] == [1]
        assert [path.name for path in run.checkpoints.folder.iterdir()] == ["step_000001"]
        with files_of_at_most(4096), pytest.raises(RunError, match=r"run/model could not be written .*; free space"):
            save_model(learner, run)
        assert not run.model.exists()
