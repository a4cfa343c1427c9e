"""The rewards `format` and `em_with_format`: whether what the policy wrote has the agreed form.

They read what the environment recorded in each turn: `calls` (those that it could read) and `errors` (those that it
could not). If it recorded neither, only the answer counts.
"""

from __future__ import annotations

from agent_r1_core import RewardFn, Trajectory, exact_match_score


def format_score(trajectory: Trajectory) -> float:
    """Mean of two parts, 0 to 1: an answer was given in the agreed form; share of the calls that are well-formed.

    Without any attempt at a call, only the answer counts. More calls never make up for a missing answer. Source:
    Agent-R1 (arXiv 2511.14460), whose second part is 0 or 1.
    """
    answered = float(trajectory.answer is not None)
    calls = sum(len(turn.calls) for turn in trajectory.steps)
    attempts = calls + sum(len(turn.errors) for turn in trajectory.steps)
    return answered if attempts == 0 else (answered + calls / attempts) / 2


class Format(RewardFn):
    """Share of well-formed parts, 0 to 1: the answer, and the tool calls."""

    def score(self, trajectory: Trajectory) -> float:
        """`format_score` of the trajectory."""
        return format_score(trajectory)


class ExactMatchWithFormat(RewardFn):
    """Exact match when everything is well-formed, else the format score minus 1 (arXiv 2511.14460)."""

    range = (-1.0, 1.0)

    def score(self, trajectory: Trajectory) -> float:
        """0 or 1 when the format score is 1, else between -1 and 0.

        Raises:
            ValueError: the task has no accepted answer.
        """
        score = format_score(trajectory)
        return exact_match_score(trajectory.answer, trajectory.task.answers) if score == 1.0 else score - 1.0
