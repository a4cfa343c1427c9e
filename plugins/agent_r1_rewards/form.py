"""The rewards `format` and `em_with_format`: whether what the policy wrote has the agreed form; and `overlong`.

The first two read what the environment recorded in each turn: `calls` (those that it could read) and `errors` (those
that it could not). If it recorded neither, only the answer counts.
"""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from agent_r1_core import ComponentConfig, RewardFn, Trajectory, is_accepted


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
        return float(is_accepted(trajectory.answer, trajectory.task.answers)) if score == 1.0 else score - 1.0


class Overlong(RewardFn):
    """0 for an episode of at most max_tokens - cache sampled tokens, then falling in a line to -1 at max_tokens.

    With L sampled tokens, (max_tokens - cache - L) / cache between the two (DAPO, arXiv 2503.14476, eq. 13). Only what
    the policy sampled counts, in all turns: what tools say is no decision of the policy. It is a part of the return as
    any other reward is, so that a group whose answers are all right has a spread if their lengths differ.
    """

    range = (-1.0, 0.0)

    class Config(ComponentConfig):
        """Options of `overlong`; the defaults are the paper's, far above what a small model samples."""

        max_tokens: int = Field(20480, ge=1)
        """Sampled tokens from which on the score is -1."""
        cache: int = Field(4096, ge=1)
        """Tokens below `max_tokens` over which the score falls; at most `max_tokens`."""

        @model_validator(mode="after")
        def _the_cache_is_a_part(self) -> Self:
            if self.cache > self.max_tokens:
                raise ValueError(f"cache is {self.cache}, more than max_tokens, {self.max_tokens}; lower it")
            return self

    def score(self, trajectory: Trajectory) -> float:
        """Between -1 and 0."""
        left = self.config.max_tokens - self.config.cache - trajectory.action_tokens
        return max(-1.0, min(0.0, left / self.config.cache))
