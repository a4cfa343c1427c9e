"""Shows a running training on stderr: a live bar on a terminal, else one plain line per step."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, TextIO

from agent_r1_core.metrics import declared as metric
from agent_r1_core.terminal import shown

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import RenderableType

    from agent_r1_core.evaluation.report import EvaluationResult

_RECENT = 8
"""Recent steps whose mean duration predicts the time left; early steps are slower."""


class TrainDisplay:
    """A listener (see training/listener.py) that shows the run; use it as a context manager."""

    def __init__(
        self,
        waiting: str = "loading torch and the model ...",
        *,
        stream: TextIO | None = None,
        live: bool | None = None,
    ) -> None:
        """Prepare the display; shows nothing yet.

        Args:
            waiting: what a terminal shows until there is progress.
            stream: where to write; None: stderr.
            live: whether to draw a live bar; None: if the stream is a terminal.
        """
        self.total = 0
        """Steps of the whole run; 0: it has none, and the bar counts episodes."""
        self.done = 0
        self.stream = stream if stream is not None else sys.stderr
        self.live = is_terminal(self.stream) if live is None else live
        self._waiting = waiting
        self._seconds: deque[float] = deque(maxlen=_RECENT)
        self._figures = ""
        self._bar: Bar | None = None
        self._stack = ExitStack()

    def __enter__(self) -> TrainDisplay:
        if self.live:
            self._bar = self._stack.enter_context(Bar(self._waiting, self.stream))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self._bar = None

    def begin(self, done: int, steps: int) -> None:
        """Training starts: `steps` in total, of which an earlier attempt completed `done`."""
        self.done, self.total = done, steps
        if self._bar is not None:
            self._bar.show(done, steps, "starting", "")

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """A step is complete."""
        self.done = step
        if metric.TIME_STEP in metrics:
            self._seconds.append(metrics[metric.TIME_STEP])
        self._figures = "  ".join(summary(metrics))
        if self._bar is not None:
            self._bar.show(step, self.total, self._left(), self._figures)
        else:
            self._print("  ".join(part for part in (f"step {step}/{self.total}", self._figures, self._left()) if part))

    def episodes(self, done: int, total: int, of: str) -> None:
        """Show the episodes of the current rollout or evaluation; a plain display skips them."""
        if self._bar is None:
            return
        if not self.total:
            self._bar.show(done, total, f"{of}, episodes", "")
            return
        training = of == "rollout"
        share = done / total / 2 if training else 0.0
        activity = "learning" if training and done == total else f"{of} {done}/{total}"
        self._bar.show(self.done + share, self.total, "  ".join(filter(None, (self._left(), activity))), self._figures)

    def evaluation(self, step: int, result: EvaluationResult) -> None:
        """An evaluation is complete."""
        when = "before training" if step == 0 else f"after step {step}"
        self.note(f"evaluation {when}: {result.headline()}")

    def note(self, text: str) -> None:
        """A sentence that stays on the screen."""
        if self._bar is not None:
            self._bar.note(shown(text, self.stream.encoding))
        else:
            self._print(text)

    def confirm(self, question: str) -> bool:
        """Ask a yes-or-no question on the terminal; the live bar waits for the answer."""
        if self._bar is not None:
            self._bar.pause()
        try:
            self.stream.write(f"{question} [y/N] ")
            self.stream.flush()
            return sys.stdin.readline().strip().lower() in ("y", "yes")
        finally:
            if self._bar is not None:
                self._bar.resume()

    def _left(self) -> str:
        """Time left, once a step has been measured."""
        if not self._seconds or self.done >= self.total:
            return ""
        return f"{duration(sum(self._seconds) / len(self._seconds) * (self.total - self.done))} left"

    def _print(self, text: str) -> None:
        print(shown(text, self.stream.encoding), file=self.stream, flush=True)


class Bar:
    """A bar by rich, with the last step's figures on the line below; a spinner until there is progress."""

    def __init__(self, waiting: str, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.spinner import Spinner

        self._progress = Progress(
            TextColumn("{task.fields[step]}/{task.total:.0f}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[activity]}", markup=False),
        )
        self._task = self._progress.add_task("", step=0, activity="")
        self._waiting: RenderableType | None = Spinner("dots", waiting)
        self._figures = ""
        console = Console(file=stream, force_terminal=True, emoji=False)
        self._live = Live(console=console, get_renderable=self._drawn, refresh_per_second=8)

    def __enter__(self) -> Bar:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.transient = self._waiting is not None
        self._live.stop()

    def pause(self) -> None:
        """Leave the terminal to a question."""
        self._live.transient = True
        self._live.stop()

    def resume(self) -> None:
        """Draw again."""
        self._live.start()

    def show(self, done: float, total: int, activity: str, figures: str) -> None:
        """Move the bar; `done` includes the fraction of the current step."""
        self._waiting = None
        self._progress.update(self._task, completed=done, step=int(done), activity=shown(activity), total=total)
        self._figures = figures

    def note(self, text: str) -> None:
        """Print above the bar."""
        self._live.console.print(text, markup=False, highlight=False)

    def _drawn(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        if self._waiting is not None:
            return self._waiting
        return Group(self._progress, Text(self._figures)) if self._figures else self._progress


def summary(metrics: Mapping[str, float]) -> list[str]:
    """The figures of a step that a person follows, as short texts; unmeasured ones are left out."""
    shown = [
        ("reward", metric.REWARD_MEAN, "{:.3f}"),
        ("exact match", metric.REWARD.of("exact_match"), "{:.3f}"),
        ("turns", metric.EPISODE_TURNS, "{:.1f}"),
        ("tokens", metric.EPISODE_TOKENS, "{:.0f}"),
        ("tokens/s", metric.ROLLOUT_TOKENS_PER_SECOND, "{:,.0f}"),
    ]
    figures = [f"{label} {form.format(metrics[name])}" for label, name, form in shown if name in metrics]
    return [*figures, *_seconds(metrics)]


def _seconds(metrics: Mapping[str, float]) -> list[str]:
    """The duration of a step, without its evaluation."""
    if not {metric.TIME_ROLLOUT, metric.TIME_UPDATE, metric.TIME_WEIGHTS} <= metrics.keys():
        return []
    seconds = metrics[metric.TIME_ROLLOUT] + metrics[metric.TIME_UPDATE] + metrics[metric.TIME_WEIGHTS]
    return [f"s/step {seconds:.1f} (update {metrics[metric.TIME_UPDATE]:.1f})"]


def duration(seconds: float) -> str:
    """`42 s`, `3:05`, `2:10:00`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def is_terminal(stream: TextIO) -> bool:
    """Whether the stream is a terminal that supports colours and live lines."""
    return stream.isatty() and os.environ.get("TERM", "") != "dumb"
