"""ScoreFn: one more score of an evaluation; it trains nothing."""

from __future__ import annotations

import math
from collections.abc import Awaitable
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
    """Scores the episodes of an evaluation, sync or async; reported as `score/<name>`.

    `score` is called in the evaluation's process, for several episodes at once, and has 60 seconds for each, or
    what the recipe says (`timeout`). It gives a real number or a bool within the declared bounds. An episode for which
    it gives anything else, raises or takes longer lacks the score, and the report says so. After 16 episodes that took
    longer, one after another, it is asked no more in that evaluation.
    """

    declared: ClassVar[DeclaredScore]

    def score(self, trajectory: Trajectory) -> float | Awaitable[float | None] | None:
        """The score of an episode that did not fail; None where its task has no such score."""
        raise TypeError(f"score {type(self).__name__} defines no score(trajectory); add one")


def bounds_problem(score: float, bounds: Bounds) -> str | None:
    """What is wrong with a score that is not finite or outside its bounds, to follow its name; None if nothing is."""
    fits = {"0 or 1": score in (0.0, 1.0), "0 to 1": 0.0 <= score <= 1.0}.get(bounds, math.isfinite(score))
    return None if fits else f"is {score:g}, and its bounds are {bounds!r}; fix one of them"
