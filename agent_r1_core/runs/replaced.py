"""A run that `--force` replaces: it is moved aside until the new run records a step, and comes back if that fails.

The old run stays locked meanwhile, so other processes can undo a replacement only after its process has died.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from agent_r1_core.runs.files import REPLACED, TEMPORARY, naming
from agent_r1_core.runs.lock import RunLock
from agent_r1_core.runs.marker import is_run


@dataclass
class ReplacedRun:
    """A run that was moved aside."""

    path: Path
    """Where it is now."""
    place: Path
    """Where it was; the new run is there now."""
    lock: RunLock

    @classmethod
    def set_aside(cls, place: Path, run_lock: RunLock) -> ReplacedRun:
        """Move the run at `place`, locked by `run_lock`, aside."""
        path = aside(place)
        with naming(place):
            os.rename(place, path)
        return cls(path, place, run_lock)

    @classmethod
    def of(cls, place: Path) -> ReplacedRun | None:
        """The run that the one at `place` replaces; None if there is none.

        Raises:
            RunError: another process is replacing it.
        """
        path = aside(place)
        return cls(path, place, RunLock(path)) if is_run(path) else None

    def delete(self) -> None:
        """Delete it: the new run has recorded a step."""
        doomed = self.path.with_name(f"{TEMPORARY}delete-{self.path.name}")
        shutil.rmtree(doomed, ignore_errors=True)
        with naming(self.path):
            os.rename(self.path, doomed)
        self.lock.release()
        shutil.rmtree(doomed, ignore_errors=True)  # files that cannot be deleted are no run any more

    def restore(self) -> None:
        """Move it back to its place, which is free."""
        with naming(self.place):
            os.rename(self.path, self.place)
        self.lock.release()


def aside(place: Path) -> Path:
    """Where the run at `place` is kept while it is being replaced."""
    named = place.resolve() if place.name in ("", "..") else place
    return named.parent / f"{REPLACED}{named.name}"
