"""Estimate: a score over tasks with its interval, as evaluations compute it and as their files are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Estimate:
    """A mean over tasks with its 95 % interval."""

    mean: float
    low: float | None
    """None if there is no interval: a single task whose score is not a share."""
    high: float | None
    method: str
    """`wilson`, `bootstrap over tasks`, `unweighted mean of <k> sets`, or `none`."""
    n: int
    """Tasks."""
    asked: int | None = None
    """Tasks that were asked, where more than `n`: the episodes of the others failed. None: all were scored."""

    @property
    def count(self) -> str:
        """The tasks in words: `71 of 100`, or `100` where all were scored."""
        return str(self.n) if self.asked is None else f"{self.n} of {self.asked}"

    @property
    def interval(self) -> str:
        """`[0.320, 0.454]`; empty where there is none."""
        return "" if self.low is None or self.high is None else f"[{self.low:.3f}, {self.high:.3f}]"

    def row(self) -> tuple[str, str, str, str]:
        """Cells of a table: mean, interval, method, tasks."""
        return f"{self.mean:.3f}", self.interval, self.method, self.count

    def out_of(self, asked: int) -> Estimate:
        """The same score, where so many tasks were asked."""
        return replace(self, asked=asked if asked > self.n else None)

    def __str__(self) -> str:
        return f"{self.mean:.3f} {self.interval or 'no interval'}"

    def to_answer(self) -> dict[str, Any]:
        """Plain data of a recorded score, for lists of runs and the viewer."""
        return {"value": self.mean, "low": self.low, "high": self.high, "n": self.n, "asked": self.asked}
