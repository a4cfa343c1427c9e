"""Contract tests of what scores trajectories: a RewardFn, which trains, and a ScoreFn, which evaluates."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real
from typing import Any, ClassVar

from agent_r1_core.contracts.reward import RewardFn, SamplingPolicy
from agent_r1_core.contracts.score import ScoreFn, bounds_problem
from agent_r1_core.testing.contracts.base import ComponentContract, run, settle
from agent_r1_core.testing.trajectories import make_task, make_trajectory
from agent_r1_core.tools.plain import number_of, plain
from agent_r1_core.trajectory import EndStatus, Trajectory

ANSWERED = make_trajectory(task=make_task(answers=("2", "two")), answer="2", texts=["I look.", "<answer>2</answer>"])
WRONG = make_trajectory(task=make_task(answers=("2", "two")), answer="3", texts=["I guess.", "<answer>3</answer>"])
EMPTY = make_trajectory(task=make_task(answers=("2", "two")), answer="", texts=["I look.", "<answer></answer>"])
OUT_OF_BUDGET = make_trajectory(status=EndStatus.TRUNCATED, reason="max_turns", texts=["I look.", "I look again."])


async def _likelihood(families: Sequence[Any]) -> list[list[list[float]]]:
    """Less likely the longer prompt and action are."""
    return [[[-len(one) - len(action) / 8 for one in prompts] for action in actions] for prompts, actions in families]


class RewardContract(ComponentContract):
    """Set `component`, and `cases` to your own trajectories with the scores that they should get."""

    kind = "reward"
    cases: ClassVar[Sequence[tuple[Trajectory, float]]] = ()
    """Trajectories and their scores; for a process reward, the score of the last turn."""
    examples: ClassVar[Sequence[Trajectory]] = (ANSWERED, WRONG, EMPTY, OUT_OF_BUDGET)
    """Further trajectories, whose scores need only be in range."""

    def score(self, reward: RewardFn, trajectory: Trajectory) -> Any:
        """The score, as in a rollout."""
        if reward.scope == "turn":
            return run(settle(reward.score_turn(trajectory.turns[-1], trajectory)))
        if reward.asks_policy:
            reward.connect_policy(SamplingPolicy(_likelihood, lambda ids: "".join(map(chr, ids))))
        if reward.scope == "group":
            (score,) = run(settle(reward.score_group([trajectory])))
            return score
        return run(settle(reward.score(trajectory)))

    def test_every_score_is_a_number_in_its_range(self) -> None:
        reward = self.make()
        low, high = reward.range
        for trajectory in (*self.examples, *(trajectory for trajectory, _ in self.cases)):
            score = self.score(reward, trajectory)
            assert isinstance(score, Real), f"scored {score!r}, which is not a number; return a float"
            assert math.isfinite(score), f"scored {score!r}"
            assert low <= score <= high, f"scored {score}, outside its range {low} to {high}"

    def test_the_cases_get_their_scores(self) -> None:
        reward = self.make()
        for trajectory, expected in self.cases:
            score = self.score(reward, trajectory)
            assert math.isclose(score, expected, abs_tol=1e-6), (
                f"answer {trajectory.answer!r} to {trajectory.task.id!r} scored {score}, expected {expected}"
            )

    def test_scoring_twice_gives_the_same_and_changes_nothing(self) -> None:
        reward = self.make()
        for trajectory in (*self.examples, *(trajectory for trajectory, _ in self.cases)):
            _score_twice(partial(self.score, reward), trajectory)

    def test_no_answer_does_not_beat_the_right_one(self) -> None:
        reward = self.make()
        if reward.scope == "turn" or not self.cases:
            return
        best = max(expected for _, expected in self.cases)
        assert self.score(reward, OUT_OF_BUDGET) <= best, "never answering beats every case (LAW 4)"


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
            _score_twice(partial(self.score, score), trajectory)

    def test_the_cases_get_their_scores(self) -> None:
        score = self.make()
        for trajectory, expected in self.cases:
            value = self.score(score, trajectory)
            assert value == expected, f"answer {trajectory.answer!r} scored {value}, expected {expected}"


def _score_twice(score: Callable[[Trajectory], Any], trajectory: Trajectory) -> None:
    before = copy.deepcopy(trajectory)
    first, second = score(trajectory), score(trajectory)
    assert first == second, f"one trajectory scored {first} and then {second}"
    assert trajectory == before, "scoring changed the trajectory"
