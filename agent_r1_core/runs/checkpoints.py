"""Checkpoints: folders `step_000010` that are whole or absent, the newest few and the best one.

A checkpoint holds what the trainer writes (`policy/`, a plain Hugging Face folder, and `trainer.pt`) and `state.json`,
which lists every file with its size, so that a half-copied checkpoint is not mistaken for a whole one. The best one is
always kept. It is determined from the checkpoints themselves; `best.json` repeats it for people.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent_r1_core.errors import RunError
from agent_r1_core.runs.files import clean_leftovers, remove_folder, write_folder, write_json

_NAME = re.compile(r"step_(\d{6,})")


@dataclass(frozen=True)
class Checkpoint:
    """One whole checkpoint."""

    path: Path
    step: int
    """The training step after which it was taken."""
    metric: str | None
    """The metric that says which checkpoint is best."""
    value: float | None
    """The metric's value; None where it was not measured at this step."""
    competitors: int
    """Checkpoints up to this one, itself included, for which the metric was measured; deleted ones count."""

    @property
    def policy(self) -> Path:
        """The policy, a plain Hugging Face folder."""
        return self.path / "policy"

    @property
    def trainer(self) -> Path:
        """The trainer's state, a `torch.save` file."""
        return self.path / "trainer.pt"


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
    ) -> Checkpoint:
        """Write the checkpoint of a step, then delete those that are neither the best nor among the newest `keep`.

        Args:
            step: The completed step; its metrics and trajectories are on disk already.
            write: Writes `policy/` and `trainer.pt` into the folder it is given.
            keep: How many of the newest to keep; at least one is kept.
            metric: Name of the metric by which checkpoints compete; the highest value wins, the earlier one on a tie.
            value: Its value at this step; None, or NaN, where it was not measured.

        Raises:
            RunError: writing fails (disk full, read-only).
        """
        measured = value if value is not None and math.isfinite(value) else None
        before = max((item for item in self.all() if item.step < step), key=lambda item: item.step, default=None)
        competitors = before.competitors if before is not None and before.metric == metric else 0
        competitors += measured is not None

        def fill(folder: Path) -> None:
            write(folder)
            record = {"schema": 1, "step": step, "metric": metric, "value": measured, "competitors": competitors}
            write_json(folder / "state.json", record | {"files": _sizes(folder)})

        self.folder.mkdir(parents=True, exist_ok=True)
        write_folder(self._path(step), fill)
        self._prune(keep)
        return self.at(step)

    def all(self) -> list[Checkpoint]:
        """All whole checkpoints, oldest first."""
        if not self.folder.is_dir():
            return []
        loaded = [_load(path) for path in self.folder.iterdir() if _NAME.fullmatch(path.name)]
        return sorted((item for item in loaded if item is not None), key=lambda item: item.step)

    def at(self, step: int) -> Checkpoint:
        """The checkpoint of a step.

        Raises:
            RunError: there is none.
        """
        checkpoints = self.all()
        for checkpoint in checkpoints:
            if checkpoint.step == step:
                return checkpoint
        steps = ", ".join(str(item.step) for item in checkpoints) or "none"
        raise RunError(f"{self.folder} has no whole checkpoint of step {step}; it has these: {steps}")

    def latest(self) -> Checkpoint | None:
        """The newest, from which a run is resumed."""
        checkpoints = self.all()
        return checkpoints[-1] if checkpoints else None

    def best(self) -> Checkpoint | None:
        """The checkpoint with the highest value of the metric in use, the earlier on a tie; None if not measured."""
        measured = [item for item in self.all() if item.value is not None]
        measured = [item for item in measured if item.metric == measured[-1].metric]
        return max(measured, key=lambda item: (item.value, -item.step)) if measured else None

    def discard_after(self, step: int) -> None:
        """Delete checkpoints of later steps."""
        for checkpoint in self.all():
            if checkpoint.step > step:
                remove_folder(checkpoint.path)
        self._write_best()

    def clean(self) -> None:
        """Remove what killed writers left, and incomplete checkpoints."""
        if not self.folder.is_dir():
            return
        clean_leftovers(self.folder)
        for path in list(self.folder.iterdir()):
            if _NAME.fullmatch(path.name) and _load(path) is None:
                remove_folder(path)
        self._write_best()

    def _path(self, step: int) -> Path:
        return self.folder / f"step_{step:06d}"

    def _prune(self, keep: int) -> None:
        checkpoints, best = self.all(), self.best()
        for checkpoint in checkpoints[: -max(1, keep)]:
            if best is None or checkpoint.step != best.step:
                remove_folder(checkpoint.path)
        self._write_best()

    def _write_best(self) -> None:
        best, file = self.best(), self.folder / "best.json"
        if best is not None:
            write_json(file, {"step": best.step, "metric": best.metric, "value": best.value, "path": best.path.name})
        else:
            file.unlink(missing_ok=True)


def _sizes(folder: Path) -> dict[str, int]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}


def _load(path: Path) -> Checkpoint | None:
    """The checkpoint in `path`; None if it is incomplete."""
    try:
        record = json.loads((path / "state.json").read_text(encoding="utf-8"))
        if any((path / name).stat().st_size != size for name, size in record["files"].items()):
            return None
        return Checkpoint(path, record["step"], record["metric"], record["value"], record["competitors"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
