"""Rules: which values of a metric are beyond bounds, and for how many of them in a row before that is an alarm.

A rule counts the values of its metric: steps, but evaluations where the metric comes with those. Values beyond the
limit do not move what later ones are compared with.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from agent_r1_core.contracts.component import Section
from agent_r1_core.contracts.metric import Metric
from agent_r1_core.metrics.catalogue import Catalogue

_NOISE = 3.0
"""Standard deviations that a value loses by chance."""


@dataclass
class Past:
    """What a rule remembers of the earlier values within bounds, `window` values of each."""

    window: int
    first: list[float] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    """The values in a row with the highest mean."""
    recent: deque[float] = field(init=False)

    def __post_init__(self) -> None:
        self.recent = deque(maxlen=self.window)

    @property
    def full(self) -> bool:
        return len(self.first) == self.window

    def add(self, value: float) -> None:
        if not self.full:
            self.first.append(value)
        self.recent.append(value)
        if self.full and (not self.best or statistics.fmean(self.recent) > statistics.fmean(self.best)):
            self.best = list(self.recent)


class RunningMean:
    """The mean of the last `size` values."""

    def __init__(self, size: int) -> None:
        self.first: float | None = None
        """The mean of the first `size` values; None until there are so many."""
        self.last = 0.0
        """The mean of the last ones."""
        self._recent: deque[float] = deque(maxlen=size)

    @property
    def full(self) -> bool:
        """Whether there were `size` values."""
        return self.first is not None

    @property
    def risen(self) -> bool:
        """Whether the last mean is higher than the first."""
        return self.first is not None and self.last > self.first

    def add(self, value: float) -> float:
        """The mean with another value."""
        self._recent.append(value)
        self.last = statistics.fmean(self._recent)
        if self.first is None and len(self._recent) == self._recent.maxlen:
            self.first = self.last
        return self.last


class Rule(Section):
    """A limit, and how long a metric may be beyond it."""

    threshold: float
    steps: int = Field(ge=1)
    """Values in a row beyond the limit that raise the alarm."""

    def memory(self) -> int:
        """How many earlier values the limit depends on, in a row."""
        return 1

    def smoothing(self) -> int:
        """Of how many values in a row the mean is judged."""
        return 1

    def limit(self, past: Past) -> float | None:
        """The limit of the next value; None while there is none."""
        return self.threshold

    def beyond(self, value: float, limit: float) -> bool:
        """Whether a value has reached its limit."""
        return value <= limit


class AtMost(Rule):
    """Values of at most `threshold`."""


class AtLeast(Rule):
    """Values of at least `threshold`."""

    def beyond(self, value: float, limit: float) -> bool:
        return value >= limit


class Fall(Rule):
    """Values of at most `threshold` times the mean of the first ones, where that is above 0."""

    threshold: float = Field(gt=0, lt=1)
    window: int = Field(default=3, ge=1)
    """How many first values make the mean."""

    def memory(self) -> int:
        return self.window

    def limit(self, past: Past) -> float | None:
        mean = statistics.fmean(past.first) if past.full else 0.0
        return self.threshold * mean if mean > 0 else None


class MeasuredFall(Fall):
    """A fall of what has to be measured."""

    every: int = Field(default=0, ge=0)
    """Steps between measurements, from the first step on; 0: never."""


class MeanFall(Fall):
    """Running means of at most `threshold` times the first one, where that is above 0."""

    window: int = Field(default=5, ge=1)
    """How many values in a row make a mean."""

    def memory(self) -> int:
        return 1

    def smoothing(self) -> int:
        return self.window


class Growth(AtLeast, Fall):
    """Values of at least `threshold` times the mean of the first ones, where that is above 0."""

    threshold: float = Field(gt=1)


class Spike(AtLeast):
    """Values of at least `threshold` times the running median, where that is above 0."""

    threshold: float = Field(gt=1)
    window: int = Field(default=10, ge=1)
    """How many earlier values within bounds make the median."""

    def memory(self) -> int:
        return self.window

    def limit(self, past: Past) -> float | None:
        median = statistics.median(past.recent) if past.full else 0.0
        return self.threshold * median if median > 0 else None


class Loss(Rule):
    """Values that have lost the share `threshold` of the best running mean, and more than its noise.

    The limit is best - max(threshold x max(|best|, |first|), 3 s), with the highest and the first mean of `window`
    values in a row, and s the standard deviation (n - 1) of the best ones: a reward may be negative or nearly 0.
    """

    threshold: float = Field(gt=0)
    window: int = Field(default=5, ge=2)
    """How many values in a row make a mean."""

    def memory(self) -> int:
        return self.window

    def limit(self, past: Past) -> float | None:
        if not past.full:
            return None
        best = statistics.fmean(past.best)
        scale = max(abs(best), abs(statistics.fmean(past.first)))
        limit = best - max(self.threshold * scale, _NOISE * statistics.stdev(past.best))
        return limit if limit < best else None


Need = Literal[
    "tools", "groups", "compared groups", "no compared groups", "reference", "a critic", "no critic",
    "several passes", "importance weights", "evaluations", "measurements", "measured thoughts", "one version",
    "a mismatch mask",
]  # fmt: skip
"""What a run must have so that a monitor's metric says anything."""

_DECLARED = Catalogue()


@dataclass(frozen=True)
class Monitor:
    """Watches one metric.

    Raises:
        ConfigError: a metric that it names is not declared.
    """

    name: str
    """Its key in the section `health` of a recipe."""
    metric: Metric
    rule: Rule
    """The default; a recipe may change its numbers."""
    seen: str
    """What an alarm says was seen; `{value}` and `{limit}` stand for the two numbers, shares in `{value} of ...`."""
    helps: str
    """What usually helps, as the end of a sentence."""
    per: tuple[Metric, ...] = ()
    """The metric counts as a share of the sum of these; a step in which that is 0 is not judged."""
    gain: Metric | None = None
    """While this metric, as a mean of as many values as the rule takes, is above its first one, nothing is beyond the
    limit."""
    needs: Need | None = None
    of_policy: bool = False
    """Whether it compares what the policy does with what it did before; demonstrations are somebody else's doing."""
    severe: bool = False
    """Whether `health.early_stop` ends the run at its alarm."""

    def __post_init__(self) -> None:
        for name in (self.metric, *self.per, self.gain):
            if name is not None:
                _DECLARED[name]

    def value(self, metrics: Mapping[str, float]) -> float | None:
        """What it watches in a step's metrics; None if there is nothing to judge.

        Numbers that are not finite are passed over: the monitor `nonfinite` tells of those.
        """
        if self.metric not in metrics:
            return None
        value = metrics[self.metric]
        if self.per:
            whole = sum(metrics.get(name, 0.0) for name in self.per)
            value = value / whole if whole else math.nan
        return value if math.isfinite(value) else None

    def gained(self, metrics: Mapping[str, float]) -> float | None:
        """The value of `gain` in a step's metrics; None if there is none that is finite."""
        value = math.nan if self.gain is None else metrics.get(self.gain, math.nan)
        return value if math.isfinite(value) else None
