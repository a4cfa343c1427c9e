"""ScoreFn: one more score of an evaluation; it trains nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from agent_r1_core.contracts.component import Component
from agent_r1_core.contracts.metric import Better

if TYPE_CHECKING:
    from agent_r1_core.trajectory import Trajectory

Bounds = Literal["0 or 1", "0 to 1", "none", "seen"]
"""Where a score can lie; `seen`: it is 0 or 1 where all its values are, else it has no bounds."""


@dataclass(frozen=True)
class DeclaredScore:
    """What a score means. The file of an evaluation keeps it, so that no reader needs the plugin (LAW 13)."""

    meaning: str
    bounds: Bounds = "none"
    unit: str = ""
    better: Better = "neither"


class ScoreFn(Component):
    """Scores the episodes of an evaluation, in its process and without a time-out; reported as `score/<name>`."""

    declared: ClassVar[DeclaredScore]

    def score(self, trajectory: Trajectory) -> float | None:
        """The score of an episode that did not fail; None where its task has no such score."""
        raise TypeError(f"score {type(self).__name__} defines no score(trajectory); add one")

    def measure(self, trajectory: Trajectory) -> float | None:
        """`score` as a plain float; raises ValueError if it is not finite or outside its bounds."""
        score, bounds = self.score(trajectory), self.declared.bounds
        value = 0.0 if score is None else float(score)
        fits = {"0 or 1": value in (0.0, 1.0), "0 to 1": 0.0 <= value <= 1.0}.get(bounds, math.isfinite(value))
        if not fits:
            raise ValueError(f"it is {value:g}, and its bounds are {bounds!r}")
        return None if score is None else value
