"""Checkpoints: folders `step_000010` that are whole or absent, the newest few and the best one.

The best one is always kept. It is determined from the checkpoints themselves; `best.json` repeats it for people. An old
one that somebody reads stays until the next save. `CheckpointWriter` saves them while training goes on.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from agent_r1_core.errors import RunError
from agent_r1_core.runs.checkpoint import STATE, Checkpoint, inspect, step_of, write_state
from agent_r1_core.runs.files import clean_leftovers, naming, remove, remove_folder, write_folder, write_json
from agent_r1_core.runs.lock import lock_for_deleting


class Checkpoints:
    """The checkpoints of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(
        self,
        step: int,
        write: Callable[[Path], None],
        *,
        keep: int = 2,
        metric: str | None = None,
        value: float | None = None,
        basis: str = "",
        interim: bool = False,
    ) -> Checkpoint:
        """Write the checkpoint of a step, then delete those that are neither the best nor among the newest `keep`.

        Args:
            step: The completed step; its metrics and trajectories are on disk already.
            write: Writes `policy/`, `trainer/` and `task_order.json` into the folder it is given.
            keep: How many of the newest to keep; at least one is kept.
            metric: Name of the metric by which checkpoints compete; the highest value wins, the earlier one on a tie.
            value: Its value at this step; None, or NaN, where it was not measured.
            basis: What the value rests on; only values of one basis compete.
            interim: It neither competes nor counts for `keep`, and is deleted when there is a newer one, so that a run
                that was interrupted leaves what an undisturbed one leaves.

        Raises:
            RunError: writing fails (disk full, read-only).
        """
        measured = value if value is not None and math.isfinite(value) and not interim else None
        before = max((item for item in self.all() if item.step < step), key=lambda item: item.step, default=None)
        alike = before is not None and (before.metric, before.basis) == (metric, basis)
        competitors = (before.competitors if before is not None and alike else 0) + (measured is not None)
        record = {"step": step, "metric": metric, "value": measured, "competitors": competitors, "basis": basis}
        record |= {"interim": True} if interim else {}

        def fill(folder: Path) -> None:
            write(folder)
            write_state(folder, record)

        with naming(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        write_folder(self._path(step), fill)
        self.prune(keep)
        return self.at(step)

    def all(self) -> list[Checkpoint]:
        """All checkpoints whose files are there with their sizes, oldest first."""
        return [found for found in map(inspect, self._folders()) if isinstance(found, Checkpoint)]

    def damaged(self) -> dict[str, str]:
        """What is wrong with the others, by the names of their folders."""
        inspected = [(path, inspect(path)) for path in self._folders()]
        # What is gone by now was pruned by the run that trains.
        return {path.name: found for path, found in inspected if isinstance(found, str) and path.is_dir()}

    def at(self, step: int) -> Checkpoint:
        """The checkpoint of a step; a RunError where there is none."""
        checkpoints = self.all()
        for checkpoint in checkpoints:
            if checkpoint.step == step:
                return checkpoint
        steps = ", ".join(str(item.step) for item in checkpoints) or "none"
        raise RunError(f"{self.folder} has no whole checkpoint of step {step}; it has these: {steps}")

    def latest(self) -> Checkpoint | None:
        checkpoints = self.all()
        return checkpoints[-1] if checkpoints else None

    def newest_whole(self, up_to: float = math.inf) -> tuple[Checkpoint | None, dict[str, str]]:
        """The newest checkpoint, every byte of which is as it was written.

        Args:
            up_to: the latest step to look at.

        Returns:
            The checkpoint, and what is wrong with later ones, by the names of their folders.
        """
        damaged: dict[str, str] = {}
        for path in reversed(self._folders()):
            if (step_of(path) or 0) > up_to:
                continue
            found = inspect(path)
            reason = found if isinstance(found, str) else found.damage()
            if isinstance(found, Checkpoint) and reason is None:
                return found, damaged
            damaged[path.name] = str(reason)
        return None, damaged

    def best(self, without: Collection[Path] = ()) -> Checkpoint | None:
        """The checkpoint with the highest value of the metric in use, of those on its latest basis, the earlier on a
        tie; None if not measured, or if the latest checkpoint competes by no metric.

        Args:
            without: folders of checkpoints that do not count.
        """
        checkpoints = self.all()
        if not checkpoints or checkpoints[-1].metric is None:
            return None
        measured = [item for item in checkpoints if item.value is not None and item.path not in without]
        measured = [item for item in measured if (item.metric, item.basis) == (measured[-1].metric, measured[-1].basis)]
        return max(measured, key=lambda item: (item.value, -item.step)) if measured else None

    def discard_after(self, step: int) -> None:
        """Delete checkpoints of later steps, also damaged ones and those that somebody reads: a run that goes on from
        `step` must not find them again."""
        for path in self._folders():
            if (step_of(path) or 0) > step:
                remove_folder(path)
        self._write_best()

    def prune(self, keep: int) -> None:
        """Delete the checkpoints that are neither the best nor among the newest `keep`, nor read by anybody."""
        checkpoints, best = self.all(), self.best()
        due = [item for item in checkpoints if not item.interim]
        kept = {item.path for item in (*checkpoints[-1:], *due[-max(1, keep) :])}
        kept |= {best.path} if best is not None else set()
        for path in self._folders():
            if path not in kept:
                _remove_unread(path)
        self._write_best()

    def clean(self) -> None:
        """Remove what killed writers left."""
        if self.folder.is_dir():
            clean_leftovers(self.folder)
            self._write_best()

    def _path(self, step: int) -> Path:
        return self.folder / f"step_{step:06d}"

    def _folders(self) -> list[Path]:
        """The folders of all checkpoints, damaged ones too, oldest first."""
        if not self.folder.is_dir():
            return []
        steps = {path: step_of(path) for path in self.folder.iterdir() if path.is_dir()}
        return sorted((path for path, step in steps.items() if step is not None), key=lambda path: steps[path] or 0)

    def _write_best(self) -> None:
        best, file = self.best(), self.folder / "best.json"
        if best is not None:
            write_json(file, {"step": best.step, "metric": best.metric, "value": best.value, "path": best.path.name})
        elif file.exists():
            remove(file)


def _remove_unread(path: Path) -> None:
    """Delete a checkpoint unless somebody reads it."""
    with naming(path):
        lock = lock_for_deleting(path / STATE)
    if lock is not None:
        with lock:
            remove_folder(path)


class CheckpointWriter:
    """Writes a run's checkpoints in a thread, one at a time."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._idle = threading.Event()
        self._idle.set()
        self._error: BaseException | None = None
        self.step = 0
        """The step whose checkpoint was begun last."""

    @property
    def busy(self) -> bool:
        return not self._idle.is_set()

    def start(self, step: int, write: Callable[[Path], None], **options: Any) -> None:
        """Begin to write the checkpoint of a step, when the one before it is on disk.

        Args:
            write: fills the checkpoint's folder, in another thread.
            options: those of `Checkpoints.save`.

        Raises:
            RunError: the one before it could not be written.
        """
        self.wait()
        self.raise_error()
        self.step = step
        self._idle.clear()
        threading.Thread(target=self._run, args=(step, write, options), name="agent-r1-checkpoint", daemon=True).start()

    def wait(self) -> None:
        """Wait until nothing is being written, and leave an error to `raise_error`."""
        self._idle.wait()

    def raise_error(self) -> None:
        """Raise, once, what kept the last checkpoint from being written.

        Raises:
            RunError: the file system refused (full, read-only, gone).
        """
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self, step: int, write: Callable[[Path], None], options: dict[str, Any]) -> None:
        try:
            self._checkpoints.save(step, write, **options)
        except BaseException as error:  # it belongs to the thread that asks for it
            self._error = error
        finally:
            self._idle.set()
