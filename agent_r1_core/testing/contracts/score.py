"""Contract tests of a ScoreFn."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import ClassVar

from agent_r1_core.testing.contracts.base import ComponentContract
from agent_r1_core.testing.contracts.reward import ANSWERED, EMPTY, OUT_OF_BUDGET, WRONG
from agent_r1_core.trajectory import Trajectory


class ScoreContract(ComponentContract):
    """Set `component`, and `cases` to your own trajectories with the scores that they should get."""

    kind = "score"
    cases: ClassVar[Sequence[tuple[Trajectory, float | None]]] = ()

    def test_scores_are_as_declared_and_scoring_changes_nothing(self) -> None:
        for trajectory in (ANSWERED, WRONG, EMPTY, OUT_OF_BUDGET, *(one for one, _ in self.cases)):
            before = copy.deepcopy(trajectory)
            assert self.make().measure(trajectory) == self.make().measure(trajectory), "scored twice, differently"
            assert trajectory == before, "scoring changed the trajectory"

    def test_the_cases_get_their_scores(self) -> None:
        for trajectory, expected in self.cases:
            score = self.make().measure(trajectory)
            assert score == expected, f"answer {trajectory.answer!r} scored {score}, expected {expected}"
