"""Shows how far a long job is, and how long it will still take."""

from __future__ import annotations

import logging
import sys
import time

_LOG = logging.getLogger(__name__)
_LINE_SECONDS, _SCREEN_SECONDS = 30.0, 0.5
_CLEAR = "\r\x1b[K"


class Progress:
    """Counts what is done: one line that changes on a terminal, else a line every 30 seconds."""

    def __init__(self, label: str, total: int | None = None, done: int = 0, unit: str = "passages") -> None:
        """Begin.

        Args:
            label: what is done, for example `encoding`.
            total: how many there are; None: unknown.
            done: how many an earlier, interrupted job has done.
        """
        self._label, self._total, self._unit = label, total, unit
        self._done = self._first = done
        self._terminal = sys.stderr.isatty()
        self._begun = self._shown = time.monotonic()

    def advance(self, count: int) -> None:
        """So many more are done."""
        self._done += count
        now = time.monotonic()
        if now - self._shown >= (_SCREEN_SECONDS if self._terminal else _LINE_SECONDS):
            self._shown = now
            self._show(self._line(now))

    def finish(self) -> None:
        """The job has ended."""
        seconds = time.monotonic() - self._begun
        self._show(f"{self._label}: {self._done:,} {self._unit} in {duration(seconds)}", last=True)

    def _show(self, line: str, last: bool = False) -> None:
        end = "\n" if last or not self._terminal else ""
        print(f"{_CLEAR if self._terminal else ''}{line}", end=end, file=sys.stderr, flush=True)

    def _line(self, now: float) -> str:
        rate = (self._done - self._first) / max(now - self._begun, 1e-9)
        parts = [f"{self._label}: {self._done:,}"]
        if self._total:
            parts[0] += f" of {self._total:,} {self._unit} ({self._done / self._total:.0%})"
        else:
            parts[0] += f" {self._unit}"
        parts.append(f"{rate:,.0f} a second")
        if self._total and rate:
            parts.append(f"{duration((self._total - self._done) / rate)} left")
        return ", ".join(parts)


class LoggedProgress(Progress):
    """Logs a line every 30 seconds, and nothing of what takes less."""

    def __init__(self, label: str, total: int | None = None, done: int = 0, unit: str = "passages") -> None:
        """Begin, as a Progress."""
        super().__init__(label, total, done, unit)
        self._terminal = False

    def _show(self, line: str, last: bool = False) -> None:
        if not last:
            _LOG.warning("%s", line)


def duration(seconds: float) -> str:
    """Seconds in words: `45 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
