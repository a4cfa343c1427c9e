"""Whatever the disk refuses, at whatever moment: one sentence that names the place, never another exception."""

from __future__ import annotations

import builtins
import errno
import io
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dying_writers import written

from agent_r1_core.errors import RunError
from agent_r1_core.health.alarm import Alarm
from agent_r1_core.runs.evaluation_file import EvaluationTasks
from agent_r1_core.runs.run import Run
from agent_r1_core.runs.trajectory_file import write_trajectories
from agent_r1_core.testing.trajectories import make_trajectory

ALARM = Alarm(1, "group_std", "begins", 0.0, 0.1, 1, True, "the spread has fallen")


class Disk:
    """A disk that becomes read-only after a number of changes; None: never."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        for name in ("mkdir", "rename", "replace", "unlink", "rmdir", "ftruncate"):
            monkeypatch.setattr(os, name, self._changing(getattr(os, name), lambda *_: True))
        writes = os.O_RDWR | os.O_WRONLY
        monkeypatch.setattr(os, "open", self._changing(os.open, lambda path, flags, *_: flags & writes))
        for module in (io, builtins):
            monkeypatch.setattr(module, "open", self._changing(open, lambda path, mode="r", *_: "r" not in mode))

    def _changing(self, original: Callable[..., Any], changes: Callable[..., bool]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if self.left is not None and changes(*arguments):
                self.left -= 1
                if self.left < 0:
                    raise OSError(errno.EROFS, os.strerror(errno.EROFS), arguments[0])
            return original(*arguments, **options)

        return call


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with a file that belongs to a model."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "tokenizer.json").write_text("{}")
    return tmp_path / "model"


def train_resume_and_replace(home: Path, model: Path) -> None:
    """All that a run writes and deletes."""
    with Run.create(home, "run", {"seed": 0}, []) as run:
        run.keep_model_files(model)
        run.write_evaluation_tasks(EvaluationTasks({}))
        run.write_metric_catalogue([])
        for step in (1, 2):
            write_trajectories(run.trajectory_file(step), step, [make_trajectory()])
            run.write_evaluation(f"step_{step:06d}", {}, step, [{"task": "a"}])
            run.append_metrics(step, {})
            run.append_alarms([ALARM])
            run.checkpoints.save(step, written("some"), keep=1)
        run.write_model(written("some"))
    with Run.resume(home / "run") as run:
        run.truncate_after(1)
        run.write_alarms([])
        run.remove_model()
    with Run.create(home, "run", {"seed": 1}, [], force=True) as run:
        run.discard()
    with Run.create(home, "run", {"seed": 1}, [], force=True) as run:
        run.append_metrics(1, {})


@pytest.mark.slow
def test_a_disk_that_becomes_read_only_is_named_at_every_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Path
) -> None:
    disk, changes, refused = Disk(monkeypatch), 0, True
    while refused:
        home, refused = tmp_path / str(changes), False
        disk.left = changes
        try:
            train_resume_and_replace(home, model)
        except RunError as error:
            refused = str(home) in str(error) and "Read-only file system" in str(error)
            assert refused, error  # noqa: PT017
        finally:
            disk.left = None
        changes += 1
    assert changes > 60


def test_a_full_disk_is_named_at_every_write(tmp_path: Path, model: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Run.create(tmp_path, "run", {}, []) as run:
        writes: list[Callable[[], object]] = [
            lambda: run.keep_model_files(model),
            lambda: run.write_config({"seed": 0}),
            lambda: run.write_evaluation_tasks(EvaluationTasks({})),
            lambda: write_trajectories(run.trajectory_file(1), 1, [make_trajectory()]),
            lambda: run.write_evaluation("mine", {}),
            lambda: run.append_metrics(1, {}),
            lambda: run.append_alarms([ALARM]),
            lambda: run.checkpoints.save(1, written("some")),
            lambda: run.write_model(written("some")),
        ]
        for write in writes:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
            try:
                with pytest.raises(RunError, match=rf"{run.path}.* could not be written .*File too large"):
                    write()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert run.metrics() == []
        for write in writes:
            write()
