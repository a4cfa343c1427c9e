"""Remarks: tags and a note that a reader keeps beside a run, in the folder of the reader's own state, since the run may
be a stranger's.

A run is told by its run.json and the name of its folder: a remark stays when the run moves elsewhere, is also that of a
copy of the same name, and is lost when the folder is renamed.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent_r1_core.errors import RunError
from agent_r1_core.folders import state_dir
from agent_r1_core.opening import parse_json, read_bytes, read_json
from agent_r1_core.runs.directory import MARKER
from agent_r1_core.runs.files import write_json

MOST_BYTES = 2**16
"""Of a remark."""
_MOST_TAGS, _LONGEST_TAG, _LONGEST_NOTE = 20, 40, 10_000


@dataclass(frozen=True)
class Remark:
    """What is kept beside a run."""

    tags: tuple[str, ...] = ()
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"tags": list(self.tags)}


class Remarks:
    """A folder with a file for every run that has a remark."""

    def __init__(self) -> None:
        self._folder = state_dir() / "remarks"

    def of(self, run: Path) -> Remark:
        """The remark of a run in its folder; one that cannot be read is empty."""
        if not self._folder.is_dir():
            return Remark()
        try:
            return _remark(read_json(self._file(run), MOST_BYTES))
        except (OSError, ValueError, RunError):
            return Remark()

    def keep(self, run: Path, body: bytes) -> Remark:
        """Replace the remark of a run by one in JSON, and return it.

        Raises:
            RunError: it is none, it is too long, or the file system refuses.
        """
        try:
            remark = _remark(parse_json(body))
        except ValueError as error:
            raise RunError("what came is no remark on a run; send its tags and its note as JSON") from error
        try:
            file = self._file(run)
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(
                f"{error.filename} cannot be used ({error.strerror}); AGENT_R1_STATE names another folder for remarks"
            ) from error
        if remark == Remark():
            file.unlink(missing_ok=True)
        else:
            write_json(file, remark.to_json())
        return remark

    def _file(self, run: Path) -> Path:
        digest = hashlib.sha256(os.fsencode(run.name) + b"\0")
        digest.update(read_bytes(run / MARKER, MOST_BYTES))
        return self._folder / f"{digest.hexdigest()}.json"


def _remark(value: Any) -> Remark:
    """A remark as its file or a page has it.

    Raises:
        ValueError: it is none.
        RunError: it is too long.
    """
    match value:
        case {"tags": list(tags), "note": str(note)} if all(isinstance(tag, str) for tag in tags):
            kept = tuple(dict.fromkeys(filter(None, (" ".join(tag.split()) for tag in tags))))
        case _:
            raise ValueError("no remark")
    if len(kept) > _MOST_TAGS or any(len(tag) > _LONGEST_TAG for tag in kept) or len(note) > _LONGEST_NOTE:
        raise RunError(
            f"a run has at most {_MOST_TAGS} tags of {_LONGEST_TAG} characters and a note of {_LONGEST_NOTE}; shorten "
            "them"
        )
    return Remark(kept, note.strip())
