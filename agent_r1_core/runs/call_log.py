"""CallLog: which tool calls run inside the process of a run, so that a run that died in one can name it.

One line of fixed length per call, written without waiting for the disk: what a process has written survives its death,
though not that of the machine.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
from collections import deque
from pathlib import Path

from agent_r1_core.opening import DOCUMENT, open_to_write, read_bytes

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
        self._file, self._inode = -1, -1
        self.tools: set[str] = set()
        """The tools that were called in this process."""
        with contextlib.suppress(OSError):
            self._file = open_to_write(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            self._inode = os.fstat(self._file).st_ino

    def begin(self, tool: str, episode: str, turn: int) -> int:
        """A call begins; returns its place in the record."""
        self.tools.add(tool)
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
        """Delete the record: this process did not die in a call."""
        if self._is_open():
            os.close(self._file)
            self._file = -1
        with contextlib.suppress(OSError):  # gone already, or on a disk that became read-only
            self._path.unlink()

    def explain(self, error: Exception) -> str | None:
        """What may stand behind an error that ended the run, if tools ran in its process; None: nothing known."""
        descriptor = isinstance(error, OSError) and error.errno == errno.EBADF
        if not self.tools or not (descriptor or isinstance(error, RecursionError)):
            return None
        what = "closed descriptors of" if descriptor else "lowered the recursion limit of"
        return (
            f"the run ended with {type(error).__name__} ({error}), as when a tool has {what} the process that it "
            f"shares with the training; give {' and '.join(sorted(self.tools))} isolation: process"
        )

    def _write(self, place: int, line: bytes) -> None:
        if self._is_open():
            with contextlib.suppress(OSError):  # a full disk ends no call
                os.pwrite(self._file, line, place * _LINE)

    def _is_open(self) -> bool:
        """Whether the descriptor is still that of the record: a tool may close it, and another file take its number."""
        try:
            return os.fstat(self._file).st_ino == self._inode
        except OSError:
            return False


def unfinished_calls(folder: Path) -> str | None:
    """A sentence about the calls that ran when a run's process died; None: there were none, or it ended in order."""
    try:
        record = read_bytes(folder / NAME, DOCUMENT)
    except OSError:
        return None
    calls = []
    for start in range(0, len(record), _LINE):  # a line of zero bytes is that of a thread that was about to write it
        with contextlib.suppress(ValueError, TypeError):
            tool, episode, turn = json.loads(record[start : start + _LINE])
            calls.append(f"{tool} (episode {episode}, turn {turn})")
    if not calls:
        return None
    more = f" and {len(calls) - _SHOWN} more" if len(calls) > _SHOWN else ""
    return (
        f"the process of this run died while calls of tools ran in it: {', '.join(calls[:_SHOWN])}{more}; if a tool "
        "ended it, give that tool isolation: process"
    )
