"""A state that does not fit, and a checkpoint that the disk does not take, are sentences; LAW 10 has the others."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from agent_r1_grpo.grpo import GRPO
from agent_r1_ppo.ppo import PPO

from agent_r1_core.assembly.checkpointing import load_trainer_state, save_checkpoint, save_model
from agent_r1_core.assembly.local_roles import LocalLearner
from agent_r1_core.assembly.task_order import TaskOrder
from agent_r1_core.config.models import CheckpointConfig
from agent_r1_core.contracts.training import LoraSettings, TrainingConfig
from agent_r1_core.errors import ConfigError, ModelError, RunError
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.policy import Policy
from agent_r1_core.runs.checkpoint import Checkpoint
from agent_r1_core.runs.checkpoints import Checkpoints
from agent_r1_core.runs.run import Run
from agent_r1_core.testing import random_group, tiny_model

ORDER = TaskOrder(10, seed=0, shuffle=True)


def learner_of(model: Path, kind: str) -> Learner:
    """A learner with adapters, with a critic, or with neither."""
    policy = Policy.load(model, lora=LoraSettings(rank=4) if kind == "lora" else None)
    return Learner(policy, PPO() if kind == "critic" else GRPO(), TrainingConfig(lr=1e-2))


def learn(learner: Learner, step: int) -> None:
    learner.update([random_group(seed) for seed in (step, step + 10)], step)


def saved(learner: Learner, folder: Path) -> Checkpoint:
    """A checkpoint of the learner."""
    return Checkpoints(folder).save(1, asyncio.run(LocalLearner(learner).capture()).write)


def test_a_learner_that_has_not_learnt_yet_is_saved_and_resumed_and_a_state_of_something_else_is_named(tmp_path, noise):
    """It has no moments, and a resumed one that has some loses them."""
    checkpoint = saved(learner_of(noise, "plain"), tmp_path)
    resumed = learner_of(noise, "plain")
    learn(resumed, 1)
    load_trainer_state(resumed, checkpoint)
    assert resumed.state.tensors() == {}

    learner = learner_of(noise, "plain")
    learn(learner, 1)
    other = Learner(Policy(tiny_model(hidden_size=32, intermediate_size=32)), GRPO(), TrainingConfig())
    learn(other, 1)
    cannot = r"step_000001 cannot be read \(.*; delete it to resume from the previous one"
    for written, error, message in (
        (other, RunError, cannot),
        (learner_of(noise, "critic"), ConfigError, "with a critic and this learner has none"),
        (learner_of(noise, "lora"), ModelError, "LoRA options"),
    ):
        checkpoint = saved(written, tmp_path / error.__name__)
        with pytest.raises(error, match=message):
            load_trainer_state(learner, checkpoint)
    (checkpoint.trainer / "shard-00001-of-00001.safetensors").unlink()
    with pytest.raises(RunError, match=cannot):
        load_trainer_state(learner, checkpoint)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The kernel refuses longer files, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_the_disk_does_not_take_is_named_and_changes_nothing(tmp_path, noise):
    learner = LocalLearner(learner_of(noise, "plain"))

    def save(step: int) -> None:
        asyncio.run(save_checkpoint(learner, ORDER, run, step, CheckpointConfig(), None, {}))
        run.checkpoint_writer.wait()

    with Run.create(tmp_path, "run", {}, []) as run:
        run.keep_model_files(noise)
        save(1)
        with files_of_at_most(4096):
            save(2)
        with pytest.raises(RunError, match=r"step_000002 could not be written .*; free space"):
            run.checkpoint_writer.raise_error()
        assert [one.step for one in run.checkpoints.all()] == [1]
        assert [path.name for path in run.checkpoints.folder.iterdir()] == ["step_000001"]
        with files_of_at_most(4096), pytest.raises(RunError, match=r"run/model could not be written .*; free space"):
            save_model(learner, run)
        assert not run.model.exists()
