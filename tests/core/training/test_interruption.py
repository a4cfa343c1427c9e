"""An interruption never leaves a checkpoint whose weights are not those of its step (LAW 10)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_r1_core import train
from agent_r1_core.config import load_config
from agent_r1_core.runs.run import Run
from agent_r1_core.testing import tiny_model_folder
from agent_r1_core.training.assembly import assemble
from agent_r1_core.training.listener import Silence
from agent_r1_core.training.trainer import Trainer

KEYS = (
    *("model.dtype=float32", "threads=1", "tasks.train={name: arithmetic, size: 4}", "tools=[calculator]"),
    *("tasks.eval={name: arithmetic, split: eval, size: 4}", "env.max_turns=2", "engine.max_new_tokens=4"),
    *("training.steps=3", "training.tasks_per_step=2", "training.samples_per_task=2"),
    *("evaluation.every=2", "evaluation.at_start=false", "checkpoint.every=10"),
)


class Notes(Silence):
    """Remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def trainer(tmp_path: Path) -> Trainer:
    folder = tiny_model_folder(tmp_path / "model")
    resolved = load_config("default", [*KEYS, f"model.name={folder}"])
    run = Run.create(tmp_path, "run", resolved.dump(), resolved.registry.to_json())
    run.keep_model_files(folder)
    return Trainer(assemble(resolved), run, Notes())


async def interrupted_amid_step_two(trainer: Trainer, times: int) -> None:
    """Cancel the training so many times, from when step 2 has updated the policy and is not recorded yet."""
    training = asyncio.create_task(trainer.fit())
    while not (trainer.learned_step == 2 and trainer.done == 1):
        await asyncio.sleep(0)
        assert not training.done()
    for _ in range(times):
        training.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await training


def test_one_lets_the_step_come_to_its_end_and_saves_it(trainer: Trainer) -> None:
    asyncio.run(interrupted_amid_step_two(trainer, 1))
    saved = trainer.run.checkpoints.latest()
    assert saved is not None
    assert (saved.step, trainer.done) == (2, 2)
    assert "finishing step 2 before stopping" in trainer.listener.said
    assert [line["step"] for line in trainer.run.metrics()] == [1, 2]


def test_a_second_one_gives_the_step_up_and_saves_nothing_in_its_name(trainer: Trainer) -> None:
    asyncio.run(interrupted_amid_step_two(trainer, 2))
    assert trainer.done == 1
    assert trainer.run.checkpoints.latest() is None, "the policy holds step 2, of which there is no record"
    assert [line["step"] for line in trainer.run.metrics()] == [1]


class Scheduler(Silence):
    """Ends the process by SIGTERM after the second step, as a cluster does."""

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        if step == 2:
            signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize("interrupts", [signal.default_int_handler, signal.SIG_IGN], ids=["heeded", "ignored"])
def test_a_termination_saves_the_run_and_says_how_to_go_on(tmp_path: Path, interrupts: Any) -> None:
    """Also where interrupts are ignored, as in a background job of a script."""
    keys = [*KEYS, f"model.name={tiny_model_folder(tmp_path / 'model')}", f"run.dir={tmp_path}", "run.name=run"]
    before = signal.signal(signal.SIGINT, interrupts)
    try:
        with pytest.raises(KeyboardInterrupt, match=r"stopped after step 2 of 3; continue with: .* --resume"):
            train("default", keys, listener=Scheduler())
    finally:
        signal.signal(signal.SIGINT, before)
    saved = Run.open(tmp_path / "run").checkpoints.latest()
    assert saved is not None
    assert saved.step == 2
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
