"""The reward `reasoning_gym`: whether reasoning-gym accepts the answer.

Answers are scored in forks of the helper that makes the questions, within bounds on time and memory. An answer at which
the scorer raises, or does not end, is wrong if the scorer copes with the right one.
"""

from __future__ import annotations

from pydantic import Field

from agent_r1_core import ComponentConfig, RewardFn, Trajectory
from agent_r1_core.helper import HelperError
from agent_r1_reasoning_gym.asking import helper

_GRACE = 30.0
"""Seconds for a place in the queue and for making the question again."""


class ReasoningGymScore(RewardFn):
    """1 for an answer that the scorer accepts in full, else 0; no answer scores 0.

    The package pays up to 0.5 for wrong answers, often something for any answer at all, and in game_of_life_halting
    everything; `partial` pays what is above that floor. countdown and puzzle24 are scored exactly: each number once.
    """

    class Config(ComponentConfig):
        partial: bool = False
        """Pay the package's partial credit, less what it pays for `I do not know`."""
        seconds: float = Field(5.0, gt=0, le=20)
        """Time for one answer; an answer that takes longer is wrong."""

    def score(self, trajectory: Trajectory) -> float:
        """Between 0 and 1.

        Raises:
            ValueError: the task is of another source, or the scorer fails whatever the answer is.
        """
        if trajectory.answer is None:
            return 0.0
        made = trajectory.task.metadata.get("reasoning_gym")
        if made is None:
            raise ValueError(f"task {trajectory.task.id} is not of the source reasoning_gym; use another reward")
        config = self.config
        arguments = {"answer": trajectory.answer, "partial": config.partial, "seconds": config.seconds}
        try:
            return float(helper().ask("score", 2 * config.seconds + _GRACE, made=dict(made), **arguments))
        except HelperError as error:
            raise ValueError(f"reasoning_gym cannot score {trajectory.task.id}: {error}") from error
