"""Progress: shows a run on one line that is rewritten in place, with notes and evaluations above it.

It is the default when Python code passes no listener. Nothing is shown if stderr is neither a terminal nor a notebook's
cell.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from agent_r1_core.evaluation.listener import Listener, Silence
from agent_r1_core.metrics import declared as metric
from agent_r1_core.terminal import shown
from agent_r1_core.work import Work, duration, is_terminal, watched_by

if TYPE_CHECKING:
    from agent_r1_core.evaluation.report import EvaluationResult

_BAR = 20
_RECENT = 8
"""Recent steps whose mean duration predicts the time left."""
_WAITING = "loading torch and the model ..."
_SHOWN = {"reward": metric.REWARD_MEAN, "exact match": metric.REWARD.of("exact_match")}
"""Metrics of a step that the line shows, by their labels."""


def default_listener() -> Listener:
    """The listener of a run that Python code starts without one."""
    return Progress(sys.stderr) if is_watched(sys.stderr) else Silence()


def is_watched(stream: TextIO) -> bool:
    """Whether the stream is a terminal or a notebook, where a line can be rewritten."""
    notebook = type(stream).__module__.startswith("ipykernel")
    return notebook or is_terminal(stream)


@contextmanager
def showing_work(listener: Listener) -> Iterator[None]:
    """Let the default listener show long work, such as loading a model, too."""
    if not isinstance(listener, Progress):
        yield
        return
    with watched_by(listener.work):
        listener.wait(_WAITING)
        try:
            yield
        finally:
            listener.wait("")


class Progress:
    """A listener that draws a bar of text."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._done = self._steps = 0
        self._figures = ""
        self._line = ""
        self._seconds: deque[float] = deque(maxlen=_RECENT)
        self._playing: Work | None = None
        """The episodes of the current evaluation."""
        self._lock = threading.RLock()  # the thread that works reports its work

    def begin(self, done: int, steps: int) -> None:
        """Draw the bar, with the steps of an earlier attempt filled."""
        self._done, self._steps = done, steps
        self._draw("starting")

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Advance the bar; after the last step the line stays."""
        self._done, self._playing = step, None
        if metric.TIME_STEP in metrics:
            self._seconds.append(metrics[metric.TIME_STEP])
        self._figures = "  ".join(f"{label} {metrics[name]:.3f}" for label, name in _SHOWN.items() if name in metrics)
        self._draw("")
        if step == self._steps:
            with self._lock:
                self._stream.write("\n")
                self._line = ""

    def episodes(self, done: int, total: int, of: str) -> None:
        """Show how far the current rollout or evaluation is."""
        activity = f"{of} {done}/{total}"
        if of != "rollout":  # a training says how long all of it takes
            if self._playing is None or done < self._playing.done:
                self._playing = Work(of, total, done=done)
            self._playing.done = done
            if self._playing.left:
                activity += f" ({duration(self._playing.left)})"
        self._draw(activity)

    def evaluation(self, step: int, result: EvaluationResult) -> None:
        self.note(f"evaluation {'before training' if step == 0 else f'after step {step}'}: {result.headline()}")

    def note(self, text: str) -> None:
        with self._lock:
            line = self._line
            self._write("")
            self._stream.write(f"{shown(text)}\n")
            self._write(line)

    def wait(self, text: str) -> None:
        """Show what is waited for, until something else is shown; nothing: there is nothing to wait for."""
        if not self._line or self._line == _WAITING:
            self._write(text)

    def work(self, work: Work) -> None:
        self._draw("" if work.ended else shown(work.line() if work.done else f"{work.what} ..."))

    def _draw(self, activity: str) -> None:
        bar = ""
        if self._steps:
            filled = _BAR * self._done // self._steps
            bar = f"step {self._done}/{self._steps} [{'#' * filled}{'.' * (_BAR - filled)}]"
        left = ""
        if self._seconds and self._done < self._steps:
            left = f"{duration(sum(self._seconds) / len(self._seconds) * (self._steps - self._done))} left"
        self._write("  ".join(part for part in (bar, self._figures, left, activity) if part))

    def _write(self, line: str) -> None:
        with self._lock:
            self._stream.write(f"\r{' ' * len(self._line)}\r{line}" if self._line else line)
            self._stream.flush()
            self._line = line
