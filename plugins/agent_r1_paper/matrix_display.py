"""Shows a running matrix on stderr: on a terminal a live bar over its cells, else a line as each begins and ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TextIO

from agent_r1_cli.bar import Display
from agent_r1_core.terminal import shown
from agent_r1_core.work import duration

if TYPE_CHECKING:
    from agent_r1_paper.matrix import Cell


class MatrixDisplay(Display):
    """Shows how far a matrix is; use it as a context manager."""

    def __init__(self, stream: TextIO | None = None, live: bool | None = None) -> None:
        super().__init__("looking at what has run ...", stream, live)
        self._cell, self._number, self._total = "", 0, 0
        self._left = 0.0
        self._began = 0.0

    def begin(self, cell: Cell, number: int, total: int, left: float) -> None:
        """A cell begins; `left` is the time in seconds that all the cells to run will take."""
        self._cell, self._number, self._total, self._left = cell.name, number, total, left
        self._began = time.monotonic()
        if self._bar is None:
            self.note(f"{cell.name} begins, {number} of {total}, about {duration(left)} left in all")
        else:
            self.look("")

    def look(self, line: str) -> None:
        """The running cell said something."""
        if self._bar is None:
            return
        left = max(0.0, self._left - (time.monotonic() - self._began))
        text = shown(line)
        activity = f"about {duration(left)} left, {self._cell}"
        self._bar.show(self._number - 1, self._total, activity, (lambda width: text,))

    def skip(self, cell: Cell, reason: str) -> None:
        """A cell is left out."""
        self.note(f"{cell.name} is left out: {reason}")

    def end(self, cell: Cell, seconds: float, failure: str | None) -> None:
        """A cell has finished, or failed."""
        took = f"after {duration(seconds)}"
        self.note(f"{cell.name} finished {took}" if failure is None else f"{cell.name} failed {took}: {failure}")
