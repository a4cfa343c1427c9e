"""CallLog: which tool calls run inside the process of a run, so that a run that died in one can name it.

One line of fixed length per call, written without waiting for the disk: what a process has written survives its death,
though not that of the machine.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections import deque
from pathlib import Path

NAME = "calls_in_process.txt"
_LINE = 256
_BLANK = b" " * (_LINE - 1) + b"\n"
_SHOWN = 3


class CallLog:
    """The calls under way in this process; used from several threads."""

    def __init__(self, folder: Path) -> None:
        """Begin an empty record in a run's folder; without one, where it cannot be written."""
        self._path = folder / NAME
        self._free: deque[int] = deque()
        self._new = itertools.count()
        self._file: int | None = None
        with contextlib.suppress(OSError):
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)

    def begin(self, tool: str, episode: str, turn: int) -> int:
        """A call begins; returns its place in the record."""
        try:
            place = self._free.popleft()
        except IndexError:
            place = next(self._new)
        call = json.dumps([tool[:40], episode[:100], turn]).encode()
        self._write(place, call.ljust(_LINE - 1)[: _LINE - 1] + b"\n")
        return place

    def end(self, place: int) -> None:
        """The call at that place has ended."""
        self._write(place, _BLANK)
        self._free.append(place)

    def close(self) -> None:
        """Delete the record: whoever closes it did not die in a call."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            with contextlib.suppress(OSError):  # gone already, or on a disk that became read-only
                self._path.unlink()

    def _write(self, place: int, line: bytes) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk ends no call
                os.pwrite(self._file, line, place * _LINE)


def unfinished_calls(folder: Path) -> str | None:
    """A sentence about the calls that ran when a run's process died; None: there were none, or it ended in order."""
    try:
        lines = (folder / NAME).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return None
    calls = []
    for line in filter(str.strip, lines):
        with contextlib.suppress(ValueError):
            tool, episode, turn = json.loads(line)
            calls.append(f"{tool} (episode {episode}, turn {turn})")
    if not calls:
        return None
    more = f" and {len(calls) - _SHOWN} more" if len(calls) > _SHOWN else ""
    return (
        f"the process of this run died while calls of tools ran in it: {', '.join(calls[:_SHOWN])}{more}; if a tool "
        "ended it, give that tool isolation: process"
    )
