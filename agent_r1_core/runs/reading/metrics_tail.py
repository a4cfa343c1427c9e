"""MetricsTail: the metrics of a run, of which every read takes only the lines that are new.

A resume writes the file anew; the next read then begins anew, too, and `edition` is another one. Damaged lines are
named and left out.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from agent_r1_core.errors import RunError
from agent_r1_core.opening import LINES, open_to_read
from agent_r1_core.runs.metrics_file import MetricsFile, damaged_line

_BLOCK = 2**20
"""Bytes that are read and parsed at once."""
_END = 4096
"""Bytes before the next read that must be what they were: another file may get the number of one that is gone."""

_LONGEST = 200
"""Characters of the numbers of damaged lines."""
_GAPS = 5
"""Most that are named."""


class MetricsTail:
    """The lines of `metrics.jsonl` as columns of numbers; an absent value is None."""

    _inode: int
    """Of the file that was read, up to `_offset`."""
    _offset: int
    _torn: bytes
    """The beginning of a line that is not whole yet."""
    _end: bytes
    """The bytes before `_offset`."""

    def __init__(self, path: Path, only: Collection[str] | None = None) -> None:
        self._file = MetricsFile(path)
        self._only = only
        self._taken_back = 0
        self._begin()

    def update(self) -> None:
        """Read what was added since the last time; a RunError where the file cannot be read."""
        try:
            with open_to_read(self._file.path, LINES) as file:
                inode = os.fstat(file.fileno()).st_ino
                file.seek(self._offset - len(self._end))
                if file.read(len(self._end)) != self._end or inode != self._inode:
                    self._take_back()
                    file.seek(0)
                self._inode = inode
                while block := file.read(_BLOCK):
                    self._add(self._torn + block)
                    self._offset += len(block)
                    self._end = (self._end + block)[-_END:]
        except FileNotFoundError:
            self._take_back()
        except OSError as error:
            raise RunError(
                f"{self._file.path} cannot be read ({error.strerror}); make it readable and retry"
            ) from error

    @property
    def edition(self) -> str:
        """Changes when anything but later steps does: columns of another edition are to be read again."""
        return f"{self._inode}-{self._taken_back}"

    @property
    def problem(self) -> str | None:
        if not self._damaged:
            gaps = [(last + 1, step - 1) for last, step in pairwise((0, *self.steps)) if step > last + 1]
            shown = ", ".join(_range(*gap) for gap in gaps[:_GAPS]) + (", ..." if len(gaps) > _GAPS else "")
            return f"{self._file.path} lacks steps {shown}; restore it" if gaps else None
        if len(self._damaged) == 1:
            return str(damaged_line(self._file.path, self._damaged[0]))
        which = f"lines {ranges(self._damaged)}"
        if len(which) > _LONGEST:
            which = f"{len(self._damaged)} of the lines {self._damaged[0]} to {self._damaged[-1]}"
        return f"{which} of {self._file.path} are not the metrics of steps; delete the lines"

    @property
    def last_step(self) -> int | None:
        """The newest step; None: there is none."""
        return self.steps[-1] if self.steps else None

    def columns(self, after: int | None = None) -> dict[str, list[float | None]]:
        """Every metric of the steps after a step, one value a step."""
        start = 0 if after is None else bisect_right(self.steps, after)
        return {name: self.column(name, start) for name in self._values}

    def column(self, name: str, start: int = 0) -> list[float | None]:
        """One metric by step, from a place on; empty if no step has it."""
        values, present = self._values.get(name, array("d")), self._present.get(name, bytearray())
        known = [value if there else None for value, there in zip(values[start:], present[start:], strict=True)]
        missing = len(self.steps) - max(start, len(values))
        return known + [None] * missing if name in self._values else []

    def _begin(self) -> None:
        self.steps: list[int] = []
        """In ascending order."""
        self._damaged: list[int] = []
        """The numbers of lines."""
        self._values: dict[str, array[float]] = {}
        self._present: dict[str, bytearray] = {}
        self._torn = self._end = b""
        self._inode = self._offset = self._lines = 0

    def _take_back(self) -> None:
        """Forget what was read, if anything was."""
        if self._offset:
            self._taken_back += 1
            self._begin()

    def _add(self, content: bytes) -> None:
        *lines, self._torn = content.split(b"\n")
        for line in lines:
            self._lines += 1
            try:
                self._append(self._file.parse(self._lines, line, self._only))
            except RunError:
                self._damaged.append(self._lines)

    def _append(self, record: dict[str, Any]) -> None:
        step = record.pop("step")
        if self.steps and self.steps[-1] >= step:  # a run that was killed and resumed repeats steps
            self._taken_back += 1
            self._drop_from(step)
        place = len(self.steps)
        self.steps.append(step)
        for name, value in record.items():
            values, present = self._values.setdefault(name, array("d")), self._present.setdefault(name, bytearray())
            missing = place - len(values)
            values.extend([0.0] * missing)
            present.extend(bytes(missing))
            values.append(float(value))
            present.append(1)

    def _drop_from(self, step: int) -> None:
        del self.steps[bisect_left(self.steps, step) :]
        for name, values in self._values.items():
            del values[len(self.steps) :]
            del self._present[name][len(self.steps) :]


def _range(first: int, last: int) -> str:
    return f"{first} to {last}" if last > first else str(first)


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in ascending order; those that follow one another stand together."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(_range(part[0], part[-1]) for part in parts)
