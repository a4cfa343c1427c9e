"""Checkpoint: a folder with the policy, the trainer's state and its place in the tasks; `state.json` lists every file.

`inspect` compares the sizes of its files alone; `damage` reads them, before a checkpoint is used.

A file that is missing or holds other bytes is damaged. One that the system cannot read may be whole: that is a
RunError, and nobody passes the checkpoint over or deletes it.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agent_r1_core.opening import read_json
from agent_r1_core.runs.checksums import check_names, damage_of, files_of, unreadable
from agent_r1_core.runs.files import write_json
from agent_r1_core.runs.lock import FileLock, lock_for_reading

STATE = "state.json"
TASK_ORDER = "task_order.json"
_OWN = "state_crc32"
_NAME = re.compile(r"step_(\d{6,})")
_MALFORMED = (ValueError, LookupError, TypeError, AttributeError, OverflowError)


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint whose files are there."""

    path: Path
    step: int
    """The training step after which it was taken."""
    metric: str | None
    """The metric that says which checkpoint is best."""
    value: float | None
    """The metric's value; None where it was not measured at this step."""
    competitors: int
    """Checkpoints up to this one, itself included, for which the metric was measured on this basis; deleted ones
    count."""
    basis: str = ""
    """What the value rests on, such as the tasks that were asked: values of another one do not compete."""
    interim: bool = False
    """Whether an interruption took it between two that were due: the next one takes its place."""
    checksums: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    """By file."""

    @property
    def policy(self) -> Path:
        """The policy, a plain Hugging Face folder."""
        return self.path / "policy"

    @property
    def trainer(self) -> Path:
        """The trainer's state, a folder of torch's distributed checkpoint in safetensors files."""
        return self.path / "trainer"

    @property
    def task_order(self) -> Path:
        """The run's place in its tasks."""
        return self.path / TASK_ORDER

    def lock(self) -> FileLock | None:
        """Keep the checkpoint from being pruned until the lock is released; None: it is gone already."""
        return lock_for_reading(self.path / STATE)

    def damage(self, under: str = "") -> str | None:
        """What is wrong with its files, such as `task_order.json has other bytes than were written`; None: nothing is.

        Args:
            under: the beginning of the names of the files to read, such as `policy/`.

        Raises:
            RunError: a file is there and cannot be read.
        """
        chosen = {name: checksum for name, checksum in self.checksums.items() if name.startswith(under)}
        return damage_of(self.path, chosen, f"step {self.step}")


def step_of(path: Path) -> int | None:
    """The step of a checkpoint's folder; None for other folders."""
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else None


def write_state(folder: Path, record: Mapping[str, Any]) -> None:
    """Write the `state.json` of the checkpoint in `folder`: the record, its files with sizes and checksums, and a
    checksum of all that."""
    state = {"schema": 1, **record, **files_of(folder)}
    write_json(folder / STATE, state | {_OWN: _checksum_of_state(state)})


def inspect(path: Path) -> Checkpoint | str:
    """The checkpoint in the folder `path`, or what is wrong with it: a file is missing or cut off.

    Raises:
        RunError: a file is there and cannot be read.
    """
    try:
        record = read_json(path / STATE)
        own = record.pop(_OWN)
        sizes = dict(record["files"])
        found = _checkpoint(path, record)
    except (FileNotFoundError, NotADirectoryError, *_MALFORMED):
        return f"{STATE} is missing or damaged"
    except OSError as error:
        raise unreadable(path, STATE, error) from error
    if own != _checksum_of_state(record):
        return f"{STATE} has other bytes than were written"
    if found.step != step_of(path):
        return f"{STATE} is that of another step"
    for name, size in sizes.items():
        file = path / name
        try:
            if not file.is_file():
                return f"{name} is missing"
            if file.stat().st_size != size:
                return f"{name} is cut off"
        except OSError as error:
            raise unreadable(path, name, error) from error
    return found


def _checkpoint(path: Path, record: Mapping[str, Any]) -> Checkpoint:
    """The checkpoint of a record; raises one of `_MALFORMED` if somebody else wrote it."""
    step, metric, value, competitors = (record[key] for key in ("step", "metric", "value", "competitors"))
    checksums, basis, interim = dict(record["crc32"]), record.get("basis", ""), record.get("interim", False)
    ours = isinstance(metric, str | None) and isinstance(basis, str) and isinstance(interim, bool)
    if not (type(step) is type(competitors) is int and ours):
        raise TypeError("a value has another type than was written")
    if value is not None and not (isinstance(value, int | float) and math.isfinite(value)):
        raise ValueError("the value is no number")
    if checksums.keys() != record["files"].keys():
        raise ValueError("the checksums are those of other files")
    check_names(record["files"])
    value = None if value is None else float(value)
    return Checkpoint(path, step, metric, value, competitors, basis, interim, checksums)


def _checksum_of_state(state: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(state, sort_keys=True).encode())


@dataclass(frozen=True)
class RunPolicy:
    """One policy of a run."""

    folder: Path
    """A plain Hugging Face folder."""
    kind: str
    """`best checkpoint`, `final policy`, `newest checkpoint` or `checkpoint`."""
    step: int
    """The training step after which it was written."""
    chosen_by: str | None = None
    """The metric that chose it; None if nothing was compared."""
    among: int = 1
    """How many checkpoints competed."""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "folder": str(self.folder)}

    def describe(self, run: Path) -> str:
        """`best checkpoint of runs/default-1, step 20, chosen by eval/exact_match among 3`."""
        choice = f", chosen by {self.chosen_by}" if self.chosen_by else ""
        choice += f" among {self.among}" if self.among > 1 else ""
        shown = run.relative_to(Path.cwd()) if run.is_relative_to(Path.cwd()) else run
        return f"{self.kind} of {shown}, step {self.step}{choice}"
