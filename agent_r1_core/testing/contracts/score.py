"""Contract tests of a ScoreFn."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import ClassVar

from agent_r1_core.contracts.score import ScoreFn, bounds_problem
from agent_r1_core.testing.contracts.base import ComponentContract, run, settle
from agent_r1_core.testing.contracts.reward import ANSWERED, EMPTY, OUT_OF_BUDGET, WRONG
from agent_r1_core.tools.plain import number_of, plain
from agent_r1_core.trajectory import Trajectory


class ScoreContract(ComponentContract):
    """Set `component`, and `cases` to your own trajectories with the scores that they should get."""

    kind = "score"
    cases: ClassVar[Sequence[tuple[Trajectory, float | None]]] = ()

    def score(self, score: ScoreFn, trajectory: Trajectory) -> float | None:
        """The score, as in an evaluation."""
        value = run(settle(score.score(trajectory)))
        if value is None:
            return None
        number = number_of(plain(value))
        assert number is not None, f"scored {value!r}, which is not a number; return a float or None"
        problem = bounds_problem(number, score.declared.bounds)
        assert problem is None, f"the score {problem}"
        return number

    def test_scores_are_as_declared_and_scoring_changes_nothing(self) -> None:
        score = self.make()
        for trajectory in (ANSWERED, WRONG, EMPTY, OUT_OF_BUDGET, *(one for one, _ in self.cases)):
            before = copy.deepcopy(trajectory)
            first, second = self.score(score, trajectory), self.score(score, trajectory)
            assert first == second, f"one trajectory scored {first} and then {second}"
            assert trajectory == before, "scoring changed the trajectory"

    def test_the_cases_get_their_scores(self) -> None:
        score = self.make()
        for trajectory, expected in self.cases:
            value = self.score(score, trajectory)
            assert value == expected, f"answer {trajectory.answer!r} scored {value}, expected {expected}"
