"""A program that lets a writer die at every touch of the disk, one after the other: `dying_writers.py FOLDER WORK`.

Each time has a folder of its own, 1, 2, ...; in the last one the writer comes to its end. The program is small, since a
fork of the tests' own process, with all its libraries, takes fifty times as long.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from agent_r1_core.runs.checkpoints import Checkpoints
from agent_r1_core.runs.run import Run


def written(text: str) -> Callable[[Path], None]:
    """Writes a checkpoint whose files all hold the same text."""

    def write(folder: Path) -> None:
        for file in (folder / "policy" / "weights", folder / "trainer" / "shard"):
            file.parent.mkdir()
            file.write_text(text)

    return write


def saving(folder: Path, step: int) -> Callable[[], object]:
    """Saves a checkpoint beside those of the steps 1 and 2."""
    checkpoints = Checkpoints(folder)
    for old in (1, 2):
        checkpoints.save(old, written(f"old {old}"), metric="score", value=1.0)
    return lambda: checkpoints.save(step, written("new"), metric="score", value=2.0)


def replacing(folder: Path) -> Callable[[], object]:
    """Replaces a run by force, up to the first step of its successor."""
    with Run.create(folder, "run", {"seed": "old"}, []) as old:
        old.append_metrics(7, {})
    return lambda: Run.create(folder, "run", {"seed": "new"}, [], force=True).append_metrics(1, {})


WORK: dict[str, Callable[[Path], Callable[[], object]]] = {
    "again": lambda folder: saving(folder, 2),
    "next": lambda folder: saving(folder, 3),
    "by force": replacing,
}
"""What prepares a folder, and gives the work at which the writer dies."""


def killed_at(moment: int, work: Callable[[], object]) -> bool:
    """Do the work in a process that dies before its `moment`-th touch of the disk; whether it did."""
    child = os.fork()
    if child == 0:
        left = moment

        def dying(name: str) -> Callable[..., object]:
            original = getattr(os, name)

            def touch(*args: object, **options: object) -> object:
                nonlocal left
                left -= 1
                if left == 0:
                    os._exit(9)
                return original(*args, **options)

            return touch

        for name in ("open", "mkdir", "fsync", "replace", "rename", "unlink", "rmdir"):
            setattr(os, name, dying(name))
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def main(folder: Path, work: str) -> None:
    """Until a writer does not die."""
    os.fsync = lambda descriptor: None  # no test cuts the power
    moment, died = 0, True
    while died:
        moment += 1
        died = killed_at(moment, WORK[work](folder / str(moment)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
