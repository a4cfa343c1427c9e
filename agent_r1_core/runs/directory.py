"""Where a run may live: names, free places, and what `--force` may replace.

A directory is a run when its `run.json` says so; anything else is somebody's work and is never deleted.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from agent_r1_core.errors import ConfigError, RunError
from agent_r1_core.runs import lock
from agent_r1_core.runs.files import TEMPORARY, remove, remove_folder
from agent_r1_core.runs.metrics_file import MetricsFile
from agent_r1_core.runs.replaced import ReplacedRun, aside

MARKER = "run.json"
KIND = "agent-r1 run"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def checked_name(name: str) -> str:
    """The name, where a folder or file of a run can bear it.

    Raises:
        ConfigError: it cannot.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} cannot name a run or evaluation; use letters, digits, '.', '_', '+' and '-'")
    return name


def is_run(path: Path) -> bool:
    """Whether `path` is recognisably a run directory."""
    try:
        return bool(json.loads((path / MARKER).read_text(encoding="utf-8")).get("kind") == KIND)
    except (OSError, ValueError, AttributeError):
        return False


def numbered(home: Path, stem: str) -> Path:
    """Make and return the first `<stem>-<n>` that did not exist; two processes never get the same.

    Raises:
        RunError: nothing can be made in `home`.
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


def claim(path: Path, force: bool) -> tuple[lock.RunLock, ReplacedRun | None]:
    """Make `path` an empty directory and lock it; with `force`, a run that is there is set aside first.

    Returns:
        The lock, and the run that was set aside, which returns unless it is deleted.

    Raises:
        RunError: it is taken, is no run, is being written by another process, or cannot be made.
    """
    undo_killed(path)
    refuse_taken(path, force)
    held = _locked(path)
    try:
        refuse_taken(path, force)
        replaced = ReplacedRun.of(path)
        if replaced is not None and has_steps(path):
            replaced.delete()
            replaced = None
        if replaced is None and _contents(path):
            replaced = ReplacedRun.set_aside(path, held)
            held = _locked(path)
        # What is left is a successor without a step. The marker goes last, so that it is recognised half deleted.
        for entry in sorted(_contents(path), key=lambda entry: entry.name == MARKER):
            remove(entry)
    except BaseException:
        held.release()
        raise
    return held, replaced


def undo_killed(path: Path) -> None:
    """Put the old run back at `path` where its replacement was killed before the new run was set up.

    A new run that was set up stays: it can be resumed, and the old one stands aside until it has recorded a step.
    """
    if not aside(path).is_dir() or (path / "config.yaml").exists():
        return
    if path.exists() and not is_run(path) and _contents(path):
        return  # somebody else's work
    try:
        replaced = ReplacedRun.of(path)
    except (RunError, OSError):
        return  # it is being replaced right now, or this process may not write here
    if replaced is not None:
        if path.exists():
            remove_folder(path)
        replaced.restore()


def has_steps(path: Path) -> bool:
    """Whether the run there has recorded a step."""
    return MetricsFile(path / "metrics.jsonl").last_step() >= 0


def _locked(path: Path) -> lock.RunLock:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_make(path, error) from error
    return lock.RunLock(path)


def refuse_taken(path: Path, force: bool) -> None:
    """Do nothing where a run may begin.

    Raises:
        RunError: `path` is a file, or a directory that holds something and is no run or not to be replaced.
    """
    if path.exists() and not path.is_dir():
        raise RunError(f"{path} is a file, and a run needs a directory there; set another run.name or run.dir")
    if not path.exists() or not _contents(path):
        return
    if not force:
        raise RunError(f"{path} exists already; go on with it by --resume, or delete it and begin anew by --force")
    if not is_run(path):
        raise RunError(f"{path} is no run directory, so --force does not delete it; set another run.name or run.dir")


def _contents(path: Path) -> list[Path]:
    """What is in `path` beside the lock and a marker that never came to be."""
    ours = (lock.NAME, f"{TEMPORARY}{MARKER}-")
    return [entry for entry in path.iterdir() if not entry.name.startswith(ours)]


def _cannot_make(path: Path, error: OSError) -> RunError:
    return RunError(f"run directory {path} cannot be made ({error.strerror or error}); set another run.dir")
