"""Shares of time: what the steps of a training spend it on, and which of the two roles waits.

Without overlap the parts of a step follow one another, and their shares and the rest add up to all of it. Where
rollouts run ahead of the learner, both work at once: each role's share is the time in which it works, and they add up
to more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from agent_r1_core.metrics import declared as metric

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
    """Adds up the time of steps."""

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
