"""An interruption, or a lost learner, never leaves a checkpoint whose weights are not those of its step (LAW 10)."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from small_run import Notes, Terminated

from agent_r1_core import Run, train
from agent_r1_core.assembly.assembly import assemble
from agent_r1_core.config import load_config
from agent_r1_core.errors import AlgorithmError, LearnerLost, RunError
from agent_r1_core.learning.state import write_state
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
    assert trainer.run.checkpoints.latest() is None, "the policy holds step 2, of which there is no record"
    assert trainer.done == len(trainer.run.metrics()) == 1


def after_step_one(trainer: Trainer, monkeypatch: pytest.MonkeyPatch, lose: Callable[[], Awaitable[Any]]) -> None:
    """Something else happens than the second step's update."""
    update = trainer.assembly.learner.update

    async def updated(groups: Any, step: int) -> Any:
        return await (update(groups, step) if step == 1 else lose())

    monkeypatch.setattr(trainer.assembly.learner, "update", updated)


def test_one_ends_a_run_whose_learner_is_lost_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an interruption the run would go on with new learner workers."""
    trainer, interrupted = trainer_of(tmp_path, every=1), asyncio.Event()

    async def lose() -> Any:
        interrupted.set()
        await asyncio.sleep(0)
        raise LearnerLost("a learner worker is lost")

    async def interrupt() -> None:
        training = asyncio.create_task(trainer.fit())
        await interrupted.wait()
        training.cancel()
        await training

    after_step_one(trainer, monkeypatch, lose)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupt())
    saved = trainer.run.checkpoints.latest()
    assert saved.step == trainer.done == 1


def test_a_termination_saves_the_run_and_says_how_to_go_on(tmp_path: Path) -> None:
    """Also where interrupts are ignored, as in a background job of a script."""
    keys = [*KEYS, f"model.name={tiny_model_folder(tmp_path / 'model')}", f"run.dir={tmp_path}", "run.name=run"]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt, match=r"stopped after step 2 of 3; continue with: .* --resume"):
            train("default", keys, listener=Terminated())
    finally:
        signal.signal(signal.SIGINT, before)
    assert Run.open(tmp_path / "run").checkpoints.latest().step == 2
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

    async def fail() -> Any:
        held.go_on.set()
        raise AlgorithmError("it broke")

    after_step_one(trainer, monkeypatch, fail)
    with pytest.raises(AlgorithmError, match="it broke"):
        asyncio.run(trainer.fit())
    assert "step_000001 could not be written (No space left on device)" in trainer.listener.said[-1]


def interrupted_cell(work: Coroutine[Any, Any, Any]) -> None:
    """It is run as in a notebook, where a loop runs already, and is to end by an interruption."""

    async def cell() -> None:
        run_async(work)

    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(cell())
    finally:
        loop.close()


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

    monkeypatch.setattr(running, "bounded_runner", interrupted)
    before = signal.signal(signal.SIGINT, notice)
    try:
        interrupted_cell(asyncio.sleep(0))
    finally:
        signal.signal(signal.SIGINT, before)


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

    interrupted_cell(work())
    assert ended == ["by the interruption"]
