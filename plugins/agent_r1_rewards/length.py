"""The reward `overlong`: DAPO's soft punishment of long episodes."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from agent_r1_core import ComponentConfig, RewardFn, Trajectory


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
