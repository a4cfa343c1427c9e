"""Shows a running training or evaluation on stderr: a live bar on a terminal, else one plain line per step."""

from __future__ import annotations

import sys
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from agent_r1_cli.bar import Display, fitting
from agent_r1_core.metrics import declared as metric
from agent_r1_core.terminal import span_text, sparkline
from agent_r1_core.work import LINE_SECONDS, Work, duration

if TYPE_CHECKING:
    from agent_r1_core.evaluation.report import EvaluationResult

_RECENT = 8
"""Recent steps whose mean duration predicts the time left; early steps are slower."""


class TrainDisplay(Display):
    """A listener (see evaluation/listener.py) that shows the run; use it as a context manager."""

    def __init__(
        self,
        waiting: str = "loading torch and the model ...",
        *,
        stream: TextIO | None = None,
        live: bool | None = None,
    ) -> None:
        super().__init__(waiting, stream, live)
        self.total = 0
        """Steps of the whole run; 0: it has none, and the bar counts episodes."""
        self.done = 0
        self._seconds: deque[float] = deque(maxlen=_RECENT)
        self._rewards: dict[int, float] = {}
        """By step."""
        self._shares = TimeShares()
        self._figures: list[str] = []
        self._playing: Work | None = None
        """The episodes of the current rollout or evaluation."""
        self._told = 0.0
        """When a plain line last showed them."""

    def recall(self, metrics: Sequence[Mapping[str, float]]) -> None:
        """Show the rewards of the steps of earlier attempts, too, up to where training begins."""
        self._rewards = {int(line["step"]): line[metric.REWARD_MEAN] for line in metrics if metric.REWARD_MEAN in line}

    def begin(self, done: int, steps: int) -> None:
        """Training starts: `steps` in total, of which an earlier attempt completed `done`."""
        self.done, self.total = done, steps
        self._rewards = {step: reward for step, reward in self._rewards.items() if step <= done}
        self._show(done, "starting")

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        self.done, self._playing = step, None
        if metric.TIME_STEP in metrics:
            self._seconds.append(metrics[metric.TIME_STEP])
        if metric.REWARD_MEAN in metrics:
            self._rewards = {**self._rewards, step: metrics[metric.REWARD_MEAN]}  # another thread draws the old one
        self._shares.add(metrics)
        self._figures = summary(metrics)
        if self._bar is None:
            self.note("  ".join(filter(None, (f"step {step}/{self.total}", *self._figures, self._left()))))
        self._show(step, self._left())

    def episodes(self, done: int, total: int, of: str) -> None:
        """Show the episodes of the current rollout or evaluation; a plain display shows an evaluation now and then,
        and only if nothing else runs."""
        playing = self._playing
        if playing is None or playing.what != of or playing.total != total or done < playing.done:
            playing = self._playing = Work(of, total, done=done, unit="episodes")
            self._told = time.monotonic()
        playing.done = done
        if self._bar is None:
            if not self.total and time.monotonic() - self._told >= LINE_SECONDS:
                self._told = time.monotonic()
                self.note(playing.line())
            return
        left = "" if playing.left is None else duration(playing.left)
        if not self.total:
            self._bar.show(done, total, "  ".join(filter(None, (left and f"{left} left", of))), ())
            return
        training = of == "rollout"
        share = done / total / 2 if training else 0.0
        activity = "learning" if training and done == total else f"{of} {done}/{total}"
        if not training and left:
            activity += f" ({left})"
        self._show(self.done + share, "  ".join(filter(None, (self._left(), activity))))

    def evaluation(self, step: int, result: EvaluationResult) -> None:
        """An evaluation is complete."""
        when = "before training" if step == 0 else f"after step {step}"
        self.note(f"evaluation {when}: {result.headline()}")

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

    def _show(self, done: float, activity: str) -> None:
        if self._bar is not None:
            self._bar.show(done, self.total, activity, (self._reward_line, self._figure_line, self._time_line))

    def _reward_line(self, width: int) -> str:
        """The last reward, the curve of all, and its range."""
        values = [self._rewards[step] for step in sorted(self._rewards)]
        if not values:
            return ""
        last, span = f"reward {values[-1]:.3f}", span_text(values)
        curve = sparkline(values, width - len(last) - len(span) - 2, self.stream.encoding)
        return f"{last} {curve} {span}" if curve else last

    def _figure_line(self, width: int) -> str:
        """The other figures, without what the lines around them say."""
        others = (text for text in self._figures if not text.startswith("reward "))
        return fitting((text.partition(" (")[0] for text in others), width)

    def _time_line(self, width: int) -> str:
        texts = self._shares.texts()
        return fitting(("time", *texts), width) if texts else ""


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


_NEEDED = {metric.TIME_STEP, metric.TIME_ROLLOUT, metric.TIME_UPDATE, metric.TIME_WEIGHTS}
_PARTS = {
    "rollout": metric.TIME_ROLLOUT,
    "update": metric.TIME_UPDATE,
    "weights": metric.TIME_WEIGHTS,
    "evaluation": metric.TIME_EVALUATION,
}
_WAITS = {"learner waits": metric.TIME_LEARNER_WAITS, "rollouts wait": metric.TIME_ROLLOUTS_WAIT}
_OVERLAP = 0.02
"""Share of the time from which the learner and rollouts are said to work at once; less may be rounding."""


class TimeShares:
    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def add(self, metrics: Mapping[str, float]) -> None:
        """A step is complete; one that was not measured does not count."""
        if not metrics.keys() >= _NEEDED:
            return
        step = metrics[metric.TIME_STEP]
        for name in (metric.TIME_STEP, *_PARTS.values()):
            self._seconds[name] += metrics.get(name, 0.0)
        for name in _WAITS.values():
            self._seconds[name] += metrics.get(name, 0.0) * step

    def texts(self) -> list[str]:
        """`rollout 62 %`, `update 24 %`, ...: the most telling first; empty before the first step."""
        if not self._seconds[metric.TIME_STEP]:
            return []
        shares = {label: self._share(name) for label, name in _PARTS.items()}
        waits = [f"{label} {_percent(self._share(name))}" for label, name in _WAITS.items()]
        playing = 1 - self._share(metric.TIME_ROLLOUTS_WAIT)
        if playing - shares["rollout"] > _OVERLAP:
            together = [f"rollout {_percent(playing)}", f"update {_percent(shares['update'])} at the same time"]
            return [*together, *waits, *(f"{label} {_percent(shares[label])}" for label in ("weights", "evaluation"))]
        parts = [f"{label} {_percent(share)}" for label, share in shares.items() if share or label != "evaluation"]
        return [*parts, f"other {_percent(max(0.0, 1 - sum(shares.values())))}", *waits]

    def _share(self, name: str) -> float:
        return self._seconds[name] / self._seconds[metric.TIME_STEP]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
