"""The rewards `exact_match` and `f1`: the final answer against the accepted ones, by the official scorers of HotpotQA.

A task without accepted answers cannot be scored: the scorer's error fails the episode.
"""

from __future__ import annotations

from agent_r1_core import RewardFn, Trajectory, exact_match_score, f1_score


class ExactMatch(RewardFn):
    """1 when the answer equals an accepted one after HotpotQA's normalisation, else 0; no answer scores 0."""

    def score(self, trajectory: Trajectory) -> float:
        """0 or 1.

        Raises:
            ValueError: the task has no accepted answer.
        """
        return exact_match_score(trajectory.answer, trajectory.task.answers)


class F1(RewardFn):
    """F1 between the tokens of the answer and of the best accepted one; no answer scores 0."""

    def score(self, trajectory: Trajectory) -> float:
        """Between 0 and 1.

        Raises:
            ValueError: the task has no accepted answer.
        """
        return f1_score(trajectory.answer, trajectory.task.answers)
