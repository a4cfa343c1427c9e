"""An interruption, or a lost learner, never leaves a checkpoint whose weights are not those of its step (LAW 10)."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from small_run import Notes, Terminated

from agent_r1_core import train
from agent_r1_core.assembly.assembly import assemble
from agent_r1_core.config import load_config
from agent_r1_core.errors import AlgorithmError, LearnerLost, RunError
from agent_r1_core.learning.state import write_state
from agent_r1_core.runs.run import Run
from agent_r1_core.testing import tiny_model_folder
from agent_r1_core.training.trainer import Trainer
from agent_r1_core.work import running
from agent_r1_core.work.running import bounded_runner, run_async

KEYS = (
    *("model.dtype=float32", "threads=1", "tasks.train={name: arithmetic, size: 4}", "tools=[calculator]"),
    *("tasks.eval={name: arithmetic, split: eval, size: 4}", "env.max_turns=2", "engine.max_new_tokens=4"),
    *("training.tasks_per_step=2", "training.samples_per_task=2", "evaluation.at_start=false"),
    *("training.steps=3", "evaluation.every=2"),
)


def trainer_of(tmp_path: Path, every: int = 10, background: str = "true") -> Trainer:
    folder = tiny_model_folder(tmp_path / "model")
    keys = (f"checkpoint.every={every}", f"checkpoint.background={background}", f"model.name={folder}")
    resolved = load_config("default", [*KEYS, *keys])
    run = Run.create(tmp_path, "run", resolved.dump(), resolved.registry.to_json())
    run.keep_model_files(folder)
    return Trainer(assemble(resolved), run, Notes())


def test_a_second_one_gives_the_step_up_and_saves_nothing_in_its_name(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path)

    async def work() -> None:
        training = asyncio.create_task(trainer.fit())
        while not (trainer.learned_step == 2 and trainer.done == 1):  # the policy is updated, nothing recorded
            await asyncio.sleep(0)
            assert not training.done()
        for _ in range(2):
            training.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await training

    asyncio.run(work())
    assert "finishing step 2 before stopping" in trainer.listener.said
    assert trainer.done == 1
    assert trainer.run.checkpoints.latest() is None, "the policy holds step 2, of which there is no record"
    assert [line["step"] for line in trainer.run.metrics()] == [1]


def test_one_ends_a_run_whose_learner_is_lost_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an interruption the run would go on with new learner workers."""
    trainer = trainer_of(tmp_path, every=1)
    learner, interrupted = trainer.assembly.learner, asyncio.Event()
    update = learner.update

    async def lose(groups: Any, step: int) -> Any:
        if step == 1:
            return await update(groups, step)
        interrupted.set()
        await asyncio.sleep(0)
        raise LearnerLost("a learner worker is lost")

    monkeypatch.setattr(learner, "update", lose)

    async def interrupt() -> None:
        training = asyncio.create_task(trainer.fit())
        await interrupted.wait()
        training.cancel()
        await training

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupt())
    saved = trainer.run.checkpoints.latest()
    assert saved.step == trainer.done == 1


@pytest.mark.parametrize("interrupts", [signal.default_int_handler, signal.SIG_IGN], ids=["heeded", "ignored"])
def test_a_termination_saves_the_run_and_says_how_to_go_on(tmp_path: Path, interrupts: Any) -> None:
    """Also where interrupts are ignored, as in a background job of a script."""
    keys = [*KEYS, f"model.name={tiny_model_folder(tmp_path / 'model')}", f"run.dir={tmp_path}", "run.name=run"]
    before = signal.signal(signal.SIGINT, interrupts)
    try:
        with pytest.raises(KeyboardInterrupt, match=r"stopped after step 2 of 3; continue with: .* --resume"):
            train("default", keys, listener=Terminated())
    finally:
        signal.signal(signal.SIGINT, before)
    saved = Run.open(tmp_path / "run").checkpoints.latest()
    assert saved.step == 2
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


class Held:
    """Holds the writing of checkpoints back until it is let go; then it fails, if there is an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: OSError | None = None) -> None:
        self.begun, self.go_on, self.error = threading.Event(), threading.Event(), error
        monkeypatch.setattr("agent_r1_core.learning.learner.write_state", self)

    def __call__(self, *args: Any) -> None:
        self.begun.set()
        assert self.go_on.wait(60)
        if self.error is not None:
            raise self.error
        write_state(*args)


def test_one_waits_for_the_checkpoint_that_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, trainer = Held(monkeypatch), trainer_of(tmp_path, every=2)

    async def work() -> None:
        training = asyncio.create_task(trainer.fit())
        await asyncio.to_thread(held.begun.wait)
        training.cancel()
        while "writing the checkpoint of step 2 before stopping" not in trainer.listener.said:
            await asyncio.sleep(0)
        assert trainer.run.checkpoints.all() == []
        held.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await training

    asyncio.run(work())
    latest = trainer.run.checkpoints.latest()
    assert latest.step == trainer.done >= 2


FULL = OSError("No space left on device")


@pytest.mark.parametrize("background", ["true", "false"])
def test_a_checkpoint_that_cannot_be_written_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, background: str
) -> None:
    held = Held(monkeypatch, FULL)
    held.go_on.set()
    trainer = trainer_of(tmp_path, every=1, background=background)
    with pytest.raises(RunError, match=r"step_000001 could not be written \(No space left on device\); free space"):
        asyncio.run(trainer.fit())
    assert trainer.done <= (2 if background == "true" else 1)


def test_beside_another_error_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, trainer = Held(monkeypatch, FULL), trainer_of(tmp_path, every=1)
    learner = trainer.assembly.learner
    update = learner.update

    async def fail(groups: Any, step: int) -> Any:
        if step == 1:
            return await update(groups, step)
        held.go_on.set()
        raise AlgorithmError("it broke")

    monkeypatch.setattr(learner, "update", fail)
    with pytest.raises(AlgorithmError, match="it broke"):
        asyncio.run(trainer.fit())
    assert "step_000001 could not be written (No space left on device)" in trainer.listener.said[-1]


def test_an_interruption_just_after_the_end_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook the run has a thread and a loop of its own, which may be closed already."""

    @contextmanager
    def interrupted() -> Iterator[asyncio.Runner]:
        with bounded_runner() as runner:
            yield runner
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert noticed.wait(60)

    noticed = threading.Event()

    def notice(number: int, frame: Any) -> None:
        noticed.set()
        raise KeyboardInterrupt

    async def cell() -> None:
        run_async(asyncio.sleep(0))

    monkeypatch.setattr(running, "bounded_runner", interrupted)
    loop = asyncio.new_event_loop()
    before = signal.signal(signal.SIGINT, notice)
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(cell())
    finally:
        signal.signal(signal.SIGINT, before)
        loop.close()


def test_in_a_notebook_a_signal_that_another_thread_gets_ends_the_run() -> None:
    """Such a signal does not wake the thread that waits."""
    ended: list[str] = []

    async def work() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        try:
            await asyncio.sleep(30)
            ended.append("by itself")
        except asyncio.CancelledError:
            ended.append("by the interruption")
            raise

    async def cell() -> None:
        run_async(work())

    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(cell())
    finally:
        loop.close()
    assert ended == ["by the interruption"]
