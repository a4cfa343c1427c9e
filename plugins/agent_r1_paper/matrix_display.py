"""Shows a running matrix on stderr: on a terminal a live bar over its cells, else a line as each begins and ends."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TextIO

from agent_r1_cli.bar import Bar
from agent_r1_core.terminal import shown
from agent_r1_core.work import duration, is_terminal

if TYPE_CHECKING:
    from types import TracebackType

    from agent_r1_paper.matrix import Cell


class MatrixDisplay:
    """Shows how far a matrix is; use it as a context manager."""

    def __init__(self, stream: TextIO | None = None, live: bool | None = None) -> None:
        self.stream = stream if stream is not None else sys.stderr
        self.live = is_terminal(self.stream) if live is None else live
        self._bar: Bar | None = None
        self._cell, self._number, self._total = "", 0, 0
        self._left = 0.0
        self._began = 0.0

    def __enter__(self) -> MatrixDisplay:
        if self.live:
            self._bar = Bar("looking at what has run ...", self.stream)
            self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.__exit__()
            self._bar = None

    def begin(self, cell: Cell, number: int, total: int, left: float) -> None:
        """A cell begins; `left` is the time in seconds that all the cells to run will take."""
        self._cell, self._number, self._total, self._left = cell.name, number, total, left
        self._began = time.monotonic()
        if self._bar is None:
            self._say(f"{cell.name} begins, {number} of {total}, about {duration(left)} left in all")
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
        self._say(f"{cell.name} is left out: {reason}")

    def end(self, cell: Cell, seconds: float, failure: str | None) -> None:
        """A cell has finished, or failed."""
        took = f"after {duration(seconds)}"
        self._say(f"{cell.name} finished {took}" if failure is None else f"{cell.name} failed {took}: {failure}")

    def _say(self, text: str) -> None:
        if self._bar is not None:
            self._bar.note(shown(text, self.stream.encoding))
        else:
            print(shown(text, self.stream.encoding), file=self.stream, flush=True)
