"""Run directories: valid names, free places, and what `--force` may replace.

A directory is a run when its `run.json` says so. Anything else may be somebody's work and is never deleted. A run that
`--force` replaces is moved aside until the new one records a step, and comes back if that fails. It stays locked
meanwhile, so that other processes undo a replacement only after its process has died.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from agent_r1_core.contracts.component import RUN_NAME
from agent_r1_core.errors import ConfigError, NotOpened, RunError
from agent_r1_core.opening import read_json
from agent_r1_core.runs.files import REPLACED, TEMPORARY, naming, remove, remove_folder, write_json
from agent_r1_core.runs.lock import FOLDERS, NAME, RunLock
from agent_r1_core.runs.metrics_file import MetricsFile

MARKER = "run.json"
_KIND = "agent-r1 run"


def is_run(path: Path) -> bool:
    try:
        return bool(read_json(path / MARKER).get("kind") == _KIND)
    except (OSError, ValueError, AttributeError):
        return False


def lacks_marker(path: Path) -> bool:
    """Whether a folder has all that a run begins with but a whole `run.json`."""
    return not is_run(path) and all((path / name).is_file() for name in ("config.yaml", "plugins.json"))


def checked_name(name: str) -> str:
    """Return `name` if it is valid for a run or an evaluation; else raise a ConfigError."""
    if not re.fullmatch(RUN_NAME, name):
        raise ConfigError(
            f"{name!r} cannot name a run or evaluation; begin with a letter or digit, and use letters, digits, '.', "
            "'_', '+' and '-'"
        )
    return name


def numbered(home: Path, stem: str) -> Path:
    """Create and return the first `<stem>-<n>` that does not exist; two processes never get the same one.

    Raises:
        RunError: nothing can be created in `home`.
    """
    number = 1
    while True:
        path = home / f"{stem}-{number}"
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            number += 1
        except OSError as error:
            raise _cannot_make(path, error) from error


def claim(path: Path, force: bool) -> tuple[RunLock, ReplacedRun | None]:
    """Create `path` as an empty directory and lock it; with `force`, first set aside the run that is there.

    Returns:
        The lock, and the run that was set aside.

    Raises:
        RunError: the path is taken or is not a run, another process is writing it, or it cannot be created.
    """
    undo_killed(path)
    refuse_taken(path, force)
    run_lock = _locked(path)
    try:
        refuse_taken(path, force)
        replaced = ReplacedRun.of(path)
        if replaced is not None and MetricsFile(path / "metrics.jsonl").last_step() >= 0:
            replaced.delete()
            replaced = None
        if replaced is None and _contents(path):
            replaced = ReplacedRun.set_aside(path, run_lock)
            run_lock = _locked(path)
        # What is left is a successor without a step. Its marker goes last, so that a half-deleted one is recognised.
        for entry in sorted(_contents(path), key=lambda entry: entry.name == MARKER):
            remove(entry)
    except BaseException:
        run_lock.release()
        raise
    return run_lock, replaced


def undo_killed(path: Path) -> None:
    """Put the old run back at `path` if its replacement was killed before the new run was set up.

    A new run that was set up stays, since it can be resumed. The old one is kept until the new one records a step.
    Only for a run that the command is about to write: reading repairs nothing.
    """
    if not is_run(aside(path)) or (path / "config.yaml").exists():
        return
    if path.exists() and not is_run(path) and _contents(path):
        return  # somebody else's work
    try:
        replaced = ReplacedRun.of(path)
    except NotOpened:  # it cannot be put back
        raise
    except (RunError, OSError):
        return  # it is being replaced right now, or this process may not write here
    if replaced is not None:
        if path.exists():
            remove_folder(path)
        replaced.restore()


def missing(path: Path) -> RunError:
    """The error of a path without a run; it names the run that was moved aside there."""
    old = aside(path)
    if is_run(old):
        return RunError(
            f"{path} is no run directory now, but {old.name} beside it holds the run that --force was about to "
            f"replace; put it back with: agent-r1 train {path} --resume"
        )
    if lacks_marker(path):
        return RunError(f"the {MARKER} of run {path} is missing or damaged; restore it from a copy")
    return RunError(f"{path} is no run directory (it has no {MARKER}); give a folder that a training made")


def lay_out(path: Path, recipe: str | None = None) -> None:
    """Create the marker and the folders of a run. The marker comes first, so that an unfinished run is recognised."""
    created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    write_json(path / MARKER, {"kind": _KIND, "schema": 1, "created": created, "recipe": recipe})
    make_folders(path)


def make_folders(path: Path) -> None:
    """Make the folders of a run that are not there."""
    with naming(path):
        for folder in FOLDERS:
            (path / folder).mkdir(exist_ok=True)


def check_writable(folder: Path) -> None:
    """Refuse, by a RunError, a folder in which nothing can be written, or in which it cannot be made."""
    there = next(one for one in (folder, *folder.absolute().parents) if one.is_dir())
    with naming(folder), TemporaryFile(dir=there):
        pass


def _locked(path: Path) -> RunLock:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_make(path, error) from error
    return RunLock(path)


def refuse_taken(path: Path, force: bool) -> None:
    """Refuse a path where no run may start.

    Raises:
        RunError: `path` is a file, or a directory that is not empty and may not be replaced.
    """
    if path.exists() and not path.is_dir():
        raise RunError(f"{path} is a file, and a run needs a directory there; set another run.name or run.dir")
    if not path.exists() or not _contents(path):
        return
    if not force:
        raise RunError(
            f"{path} exists already; continue it with --resume, or replace it with --force (Python: resume=True, "
            "force=True)"
        )
    if not is_run(path):
        raise RunError(f"{path} is not a run directory, so --force does not delete it; set another run.name or run.dir")


def _contents(path: Path) -> list[Path]:
    """What is in `path` besides the lock and an unfinished marker."""
    ours = (NAME, f"{TEMPORARY}{MARKER}-")
    return [entry for entry in path.iterdir() if not entry.name.startswith(ours)]


def _cannot_make(path: Path, error: OSError) -> RunError:
    return RunError(f"run directory {path} cannot be created ({error.strerror or error}); set another run.dir")


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
