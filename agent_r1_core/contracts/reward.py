"""RewardFn: scores a turn (process) or an episode (outcome)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, ClassVar, Literal

from agent_r1_core.contracts.component import Component

if TYPE_CHECKING:
    from agent_r1_core.trajectory import Trajectory, Turn

SCORE_TIMEOUT = 60.0
"""Seconds for one score, unless the recipe sets another time-out."""


class RewardFn(Component):
    """Scores a turn or an episode; sync or async.

    Class attributes say what it scores and how high:

    - `scope`: `"episode"` (the default) calls `score(trajectory)` once an episode has ended, an outcome reward;
      `"turn"` calls `score_turn(turn, trajectory)` after every turn, a process reward.
    - `range`: the lowest and the highest score, (0.0, 1.0) where the class does not say otherwise.

    A process reward may have a third, `cap`: the most that its scores may add up to in an episode, up or down. Later
    turns then get what is left. A recipe may set a lower one.

    A score is a real number or a bool, at most 1e18 up or down. Anything else, a value outside `range`, NaN or an
    exception fails the episode (LAW 5): a broken reward is never trained on as a zero. The recipe's `weight` multiplies
    the score; the unweighted score is logged under the component's name.
    """

    scope: ClassVar[Literal["episode", "turn"]] = "episode"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    cap: ClassVar[float | None] = None

    def score(self, trajectory: Trajectory) -> float | Awaitable[float]:
        """Outcome reward of a finished episode, including one that ran out of budget (its `answer` is then None)."""
        raise TypeError(f"reward {type(self).__name__} has scope 'episode' and defines no score(trajectory); add one")

    def score_turn(self, turn: Turn, trajectory: Trajectory) -> float | Awaitable[float]:
        """Process reward of `turn`, the last of the trajectory so far.

        `trajectory.closing` holds the messages that answered the turn's action, such as the results of its calls.
        """
        raise TypeError(f"reward {type(self).__name__} has scope 'turn' and defines no score_turn; add one")
