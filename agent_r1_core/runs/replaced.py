"""A run that `--force` replaces: it stands aside until its successor has recorded a step, and returns if that fails.

The old run stays locked while it stands aside, so only a replacement whose process has died can be undone by others.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from agent_r1_core.runs.files import REPLACED, TEMPORARY
from agent_r1_core.runs.lock import RunLock


@dataclass
class ReplacedRun:
    """A run that stands aside."""

    path: Path
    """Where it lies now."""
    place: Path
    """Where it lay, and its successor lies now."""
    lock: RunLock

    @classmethod
    def set_aside(cls, place: Path, held: RunLock) -> ReplacedRun:
        """Move the run at `place`, which `held` locks, aside."""
        path = aside(place)
        os.rename(place, path)
        held.moved(path)
        return cls(path, place, held)

    @classmethod
    def of(cls, place: Path) -> ReplacedRun | None:
        """The run that the one at `place` replaces; None where it replaces none.

        Raises:
            RunError: another process is replacing it.
        """
        path = aside(place)
        return cls(path, place, RunLock(path)) if path.is_dir() else None

    def delete(self) -> None:
        """Delete it: its successor has recorded a step."""
        doomed = self.path.with_name(f"{TEMPORARY}delete-{self.path.name}")
        shutil.rmtree(doomed, ignore_errors=True)
        os.rename(self.path, doomed)
        self.lock.release()
        shutil.rmtree(doomed, ignore_errors=True)  # what the disk does not let go of is no run any more

    def restore(self) -> None:
        """Put it back to its place, which is free."""
        os.rename(self.path, self.place)
        self.lock.release()


def aside(place: Path) -> Path:
    """Where the run at `place` stands while it is replaced."""
    named = place.resolve() if place.name in ("", "..") else place
    return named.parent / f"{REPLACED}{named.name}"
