"""Checkpoints are written in a thread: seen when they are whole, one at a time, and no error is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_r1_core.errors import RunError
from agent_r1_core.runs.run import Run


class Slow:
    """Writes a file, then nothing until somebody lets it go on."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, folder: Path) -> None:
        (folder / "weights").write_text("some")
        self.begun.set()
        assert self.go_on.wait(60)


def in_a_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def steps(run: Run) -> list[int]:
    return [checkpoint.step for checkpoint in run.checkpoints.all()]


def test_a_checkpoint_is_seen_when_it_is_whole_and_the_next_one_waits_for_it(tmp_path: Path) -> None:
    with Run.create(tmp_path, "run", {}, []) as run:
        first, second = Slow(), Slow()
        run.checkpoint_writer.start(1, first)
        assert first.begun.wait(60)
        assert (run.checkpoint_writer.busy, run.checkpoint_writer.step, steps(run)) == (True, 1, [])
        following = in_a_thread(lambda: run.checkpoint_writer.start(2, second, keep=2))
        assert not second.begun.is_set()
        first.go_on.set()
        assert second.begun.wait(60)
        following.join()
        assert steps(run) == [1]
        second.go_on.set()
        run.checkpoint_writer.wait()
        assert steps(run) == [1, 2]
        assert not run.checkpoint_writer.busy


def test_an_error_is_raised_once_and_leaves_nothing(tmp_path: Path) -> None:
    def refuse(folder: Path) -> None:
        (folder / "weights").write_text("some")
        raise OSError("No space left on device")

    with Run.create(tmp_path, "run", {}, []) as run:
        for ask in (run.checkpoint_writer.raise_error, lambda: run.checkpoint_writer.start(2, refuse)):
            run.checkpoint_writer.start(1, refuse)
            run.checkpoint_writer.wait()
            with pytest.raises(RunError, match=r"step_000001 could not be written \(No space left on device\); free"):
                ask()
            run.checkpoint_writer.raise_error()
        assert list(run.checkpoints.folder.iterdir()) == []
