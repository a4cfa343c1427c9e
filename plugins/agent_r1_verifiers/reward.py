"""The reward `verifiers`: the sum of a task's `@vf.reward` methods, with their weights."""

from __future__ import annotations

import time
from typing import Any, Literal

from pydantic import Field

from agent_r1_core import EpisodeError, RewardFn, Trajectory
from agent_r1_core.helper import HelperError, HelperGone
from agent_r1_verifiers.asking import PythonConfig, helper, programs, unavailable

_TIMES = 3
"""How often a score is asked for: a score that keeps the helper busy for too long ends it for all."""
_GRACE = 60.0
"""Seconds in which the helper starts, two on a quiet machine, and says that a score took too long."""


class VerifiersReward(RewardFn):
    """What the task pays for the answer; 0 without one."""

    range = (-1e18, 1e18)

    class Config(PythonConfig):
        seconds: float = Field(20.0, gt=0)
        """For one score; the episode of one that takes longer has failed."""
        says: Literal["answer", "action"] = "answer"
        """What the task scores: the final answer, or the whole text of the last action, where it looks for marks."""

    @classmethod
    def programs(cls, config: Any) -> dict[str, str]:
        return programs(config)

    @classmethod
    def unavailable(cls, config: Any) -> str | None:
        return unavailable(config)

    def score(self, trajectory: Trajectory) -> float:
        """Any number.

        Raises:
            ValueError: the task is of another source.
            EpisodeError: its own scoring fails.
        """
        if trajectory.answer is None:
            return 0.0
        config, named = self.config, trajectory.task.metadata.get("verifiers")
        if named is None:
            raise ValueError(f"task {trajectory.task.id} is not of the source verifiers; use another reward")
        said = trajectory.answer if config.says == "answer" else trajectory.turns[-1].text
        asked = {**named, "said": said, "seconds": config.seconds}
        left = _TIMES
        while True:
            left, begun = left - 1, time.monotonic()
            try:
                return float(helper(config.python, config.path).ask("score", config.seconds + _GRACE, **asked))
            except HelperError as error:
                raise EpisodeError(f"verifiers cannot score {trajectory.task.id}: {error}") from error
            except HelperGone as error:
                if not left or time.monotonic() - begun > config.seconds + _GRACE:
                    raise EpisodeError(f"verifiers cannot score {trajectory.task.id}: {error}") from error
