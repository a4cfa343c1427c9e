"""Displays with a live bar and lines below it, on a terminal; a spinner until there is progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self, TextIO

from agent_r1_core.terminal import shown
from agent_r1_core.work import Work, WorkList, is_terminal, watched_by, work_row

if TYPE_CHECKING:
    from rich.console import RenderableType

Line = Callable[[int], str]
"""A line of a given number of columns."""

_WIDTH = 24
_LEAST = 4
"""Columns of the shortest bar."""


class Bar:
    """Draws by rich; what takes long in this process (see agent_r1_core.work) has a row of its own."""

    def __init__(self, waiting: str, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._waiting: Work | None = Work(waiting)
        self._works = WorkList()
        self._done, self._total, self._activity = 0.0, 0, ""
        self._lines: Sequence[Line] = ()
        self._console = Console(file=stream, force_terminal=True, emoji=False)
        self._live = Live(console=self._console, get_renderable=self._drawn, refresh_per_second=8)
        self._stack = ExitStack()

    def __enter__(self) -> Bar:
        self._stack.enter_context(watched_by(self._works.show))
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._live.transient = self._waiting is not None
        self._live.stop()

    def pause(self) -> None:
        """Leave the terminal to a question."""
        self._live.transient = True
        self._live.stop()

    def resume(self) -> None:
        self._live.start()

    def show(self, done: float, total: int, activity: str, lines: Sequence[Line]) -> None:
        """Move the bar.

        Args:
            done: steps, with the fraction of the current one.
            total: steps.
            activity: what is going on, beside the bar.
            lines: those below it.
        """
        self._waiting = None
        self._done, self._total, self._activity, self._lines = done, total, shown(activity), lines

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)

    def _drawn(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        work = self._works.newest()
        if self._waiting is not None:
            return work_row(work or self._waiting, self._console)
        texts = (line(self._console.width) for line in self._lines)
        rows: list[RenderableType] = [Text(text, no_wrap=True, overflow="crop") for text in texts if text]
        return Group(self._bar(), *rows, *([] if work is None else [work_row(work, self._console)]))

    def _bar(self) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        count = f"{int(self._done)}/{self._total}"
        room = self._console.width - len(count) - len(self._activity) - 2
        bar = [ProgressBar(self._total, self._done, width=min(_WIDTH, room))] if room >= _LEAST else []
        row = Table.grid(padding=(0, 1))
        row.add_row(count, *bar, Text(self._activity, no_wrap=True, overflow="crop"))
        return row


class Display:
    """What a command shows on stderr: a live bar on a terminal, else plain lines; use it as a context manager."""

    def __init__(self, waiting: str, stream: TextIO | None = None, live: bool | None = None) -> None:
        """Prepare the display; shows nothing yet.

        Args:
            waiting: what a terminal shows until there is progress.
            stream: where to write; None: stderr.
            live: whether to draw a live bar; None: if the stream is a terminal.
        """
        self._stream = stream if stream is not None else sys.stderr
        self.live = is_terminal(self.stream) if live is None else live
        self._waiting = waiting
        self._bar: Bar | None = None

    @property
    def stream(self) -> TextIO:
        """Where to write; the present stderr where somebody has closed that one."""
        return sys.stderr if self._stream.closed else self._stream

    def __enter__(self) -> Self:
        if self.live:
            self._bar = Bar(self._waiting, self.stream).__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.__exit__()
            self._bar = None

    def note(self, text: str) -> None:
        """A sentence that stays on the screen."""
        text = shown(text, self.stream.encoding)
        if self._bar is not None:
            self._bar.note(text)
        else:
            print(text, file=self.stream, flush=True)


def fitting(parts: Iterable[str], width: int) -> str:
    """The first of these parts, with two spaces between, as many whole ones as fit."""
    line = ""
    for part in parts:
        longer = f"{line}  {part}" if line else part
        if len(longer) > width:
            break
        line = longer
    return line
