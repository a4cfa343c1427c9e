"""Shows long work on stderr: a live bar with the time left on a terminal, else a line every 30 seconds."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, TextIO

from agent_r1_core.terminal import shown
from agent_r1_core.work.work import LINE_SECONDS, Work, duration, watched_by

if TYPE_CHECKING:
    from rich.console import Console, OverflowMethod, RenderableType

_TURNING, _TURNING_PLAIN = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "-\\|/"
_SOON = 0.3
"""Seconds that work takes before it is shown, so that nothing flickers."""
_BAR_WIDTH = 24
_WORTH_A_LINE = 2.0
"""Seconds from which work that has ended is worth a line."""
_ROOMY = 60
"""Columns of a terminal from which there is room for a bar and the count; a narrower one shows the share."""


class WorkDisplay:
    """Shows the work of this process, for commands; use it as a context manager."""

    def __init__(self, stream: TextIO | None = None, *, live: bool | None = None, lasting: bool = False) -> None:
        """Prepare it.

        Args:
            stream: where to write; None: stderr.
            live: whether to draw live bars; None: if the stream is a terminal.
            lasting: whether work that counts something, and took more than a moment, leaves a line when it has ended.
        """
        self._stream = stream if stream is not None else sys.stderr
        self._live = is_terminal(self._stream) if live is None else live
        self._lasting = lasting
        self._works = WorkList()
        self._printed: set[Work] = set()
        """Work of which a line was printed, where lines stay."""
        self._said = 0.0
        """When the last line was."""
        self._lock = threading.RLock()  # several threads show their work
        self._stack = ExitStack()

    def __enter__(self) -> WorkDisplay:
        self._said = time.monotonic()
        if self._live:
            from rich.console import Console
            from rich.live import Live

            self._console = Console(file=self._stream, force_terminal=True, emoji=False)
            self._stack.enter_context(
                Live(
                    console=self._console,
                    get_renderable=self._drawn,
                    refresh_per_second=8,
                    transient=True,
                    redirect_stdout=False,  # it may be a pipe
                )
            )
        self._stack.enter_context(watched_by(self.show))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def show(self, work: Work) -> None:
        """The work begins, advances or has ended."""
        with self._lock:
            self._works.show(work)
            if work.ended:
                begun = work in self._printed
                self._printed.discard(work)
                if begun or (self._lasting and work.count() and work.seconds >= _WORTH_A_LINE):
                    self.say(work.line())
            elif not self._live and time.monotonic() - self._said >= LINE_SECONDS:
                self._printed.add(work)
                self.say(work.line())

    def say(self, text: str) -> None:
        """A sentence that stays on the screen."""
        text, self._said = shown(text, self._stream.encoding), time.monotonic()
        if self._live:
            self._console.print(text, markup=False, highlight=False)
        else:
            print(text, file=self._stream, flush=True)

    def _drawn(self) -> RenderableType:
        from rich.text import Text

        work = self._works.newest()
        return Text() if work is None else work_row(work, self._console)


class WorkList:
    def __init__(self) -> None:
        self._works: list[Work] = []

    def show(self, work: Work) -> None:
        if work.ended:
            self._works = [other for other in self._works if other is not work]
        elif work not in self._works:
            self._works = [*self._works, work]

    def newest(self) -> Work | None:
        """The work that began last, once it has taken a moment; None: there is none."""
        return next((work for work in reversed(self._works) if work.seconds >= _SOON), None)


def work_row(work: Work, console: Console) -> RenderableType:
    """Work on one line of a terminal: what, a bar if its total is known and there is room, and the time left."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    plain = console.options.ascii_only
    turning = _TURNING_PLAIN if plain else _TURNING
    cut: OverflowMethod = "crop" if plain else "ellipsis"
    roomy, left = console.width >= _ROOMY, work.left
    after = duration(work.seconds) if left is None else f"{duration(left)} left"
    cells: list[RenderableType] = [turning[int(time.monotonic() * 8) % len(turning)]]
    cells.append(Text(shown(work.what), no_wrap=True, overflow=cut))
    if work.total and roomy:
        cells.append(ProgressBar(work.total, work.done, width=_BAR_WIDTH))
    cells.append(Text(after, no_wrap=True))
    cells.append(Text(work.count() if roomy else work.share(), no_wrap=True, overflow=cut))
    row = Table.grid(padding=(0, 1))
    row.add_row(*cells)
    return row


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "") != "dumb"
