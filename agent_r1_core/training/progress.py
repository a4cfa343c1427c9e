"""Progress: shows a run on one line that is rewritten in place, with notes and evaluations above it.

It is the default when Python code passes no listener. Nothing is shown if stderr is neither a terminal nor a notebook's
cell.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

from agent_r1_core.metrics import declared as metric
from agent_r1_core.terminal import shown
from agent_r1_core.training.listener import Listener, Silence

if TYPE_CHECKING:
    from agent_r1_core.evaluation.report import EvaluationResult

_BAR = 20
_SHOWN = {"reward": metric.REWARD_MEAN, "exact match": metric.REWARD.of("exact_match")}
"""Metrics of a step that the line shows, by their labels."""


def default_listener() -> Listener:
    """The listener of a run that Python code starts without one."""
    return Progress(sys.stderr) if is_watched(sys.stderr) else Silence()


def is_watched(stream: TextIO) -> bool:
    """Whether the stream is a terminal or a notebook, where a line can be rewritten."""
    notebook = type(stream).__module__.startswith("ipykernel")
    return notebook or (stream.isatty() and os.environ.get("TERM", "") != "dumb")


class Progress:
    """A listener that draws a bar of text."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._done = self._steps = 0
        self._figures = ""
        self._line = ""

    def begin(self, done: int, steps: int) -> None:
        """Draw the bar, with the steps of an earlier attempt filled."""
        self._done, self._steps = done, steps
        self._draw("starting")

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Advance the bar; after the last step the line stays."""
        self._done = step
        self._figures = "  ".join(f"{label} {metrics[name]:.3f}" for label, name in _SHOWN.items() if name in metrics)
        self._draw("")
        if step == self._steps:
            self._stream.write("\n")
            self._line = ""

    def episodes(self, done: int, total: int, of: str) -> None:
        """Show how far the current rollout or evaluation is."""
        self._draw(f"{of} {done}/{total}")

    def evaluation(self, step: int, result: EvaluationResult) -> None:
        """Write the evaluation above the bar."""
        self.note(f"evaluation {'before training' if step == 0 else f'after step {step}'}: {result.headline()}")

    def note(self, text: str) -> None:
        """Write a sentence above the bar."""
        line = self._line
        self._write("")
        self._stream.write(f"{shown(text)}\n")
        self._write(line)

    def _draw(self, activity: str) -> None:
        bar = ""
        if self._steps:
            filled = _BAR * self._done // self._steps
            bar = f"step {self._done}/{self._steps} [{'#' * filled}{'.' * (_BAR - filled)}]"
        self._write("  ".join(part for part in (bar, self._figures, activity) if part))

    def _write(self, line: str) -> None:
        """Replace the current line."""
        self._stream.write(f"\r{' ' * len(self._line)}\r{line}" if self._line else line)
        self._stream.flush()
        self._line = line
