"""Monitor: a rule over one declared metric, and what its alarm says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from agent_r1_core.contracts.metric import Metric
from agent_r1_core.health.rule import Rule
from agent_r1_core.metrics import Catalogue

Need = Literal[
    "tools", "groups", "single episodes", "reference", "no critic", "several passes", "importance weights",
    "evaluations", "measurements", "one version",
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
    """What an alarm says was seen; `{value}` and `{limit}` stand for the two numbers."""
    helps: str
    """What usually helps, as the end of a sentence."""
    per: tuple[Metric, ...] = ()
    """The metric counts as a share of the sum of these; a step in which that is 0 is not judged."""
    unless: Metric | None = None
    """Steps that have this metric are not judged."""
    gain: Metric | None = None
    """While this metric, as a mean of as many values as the rule takes, is above its first one, nothing is beyond the
    limit."""
    needs: Need | None = None
    of_policy: bool = False
    """Whether it compares what the policy does with what it did before; demonstrations are somebody else's doing."""
    severe: bool = False
    """Whether `health.early_stop` ends the run at its alarm."""

    def __post_init__(self) -> None:
        for name in (self.metric, *self.per, self.unless, self.gain):
            if name is not None:
                _DECLARED[name]

    def value(self, metrics: Mapping[str, float]) -> float | None:
        """What it watches in a step's metrics; None if there is nothing to judge.

        Numbers that are not finite are passed over: the monitor `nonfinite` tells of those.
        """
        if self.metric not in metrics or (self.unless is not None and self.unless in metrics):
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
