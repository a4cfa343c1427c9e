"""The reward `verifiers`: the sum of a task's `@vf.reward` methods, with their weights."""

from __future__ import annotations

from typing import Any, Literal

from agent_r1_core import RewardFn, Trajectory
from agent_r1_core.helper import HelperError
from agent_r1_verifiers.asking import PythonConfig, helper, programs, unavailable


class VerifiersReward(RewardFn):
    """What the task pays for the answer; 0 without one."""

    range = (-1e18, 1e18)

    class Config(PythonConfig):
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
            ValueError: the task is of another source, or its own scoring fails.
        """
        if trajectory.answer is None:
            return 0.0
        config, named = self.config, trajectory.task.metadata.get("verifiers")
        if named is None:
            raise ValueError(f"task {trajectory.task.id} is not of the source verifiers; use another reward")
        said = trajectory.answer if config.says == "answer" else trajectory.turns[-1].text
        try:
            return float(helper(config.python, config.path).ask("score", config.seconds, **named, said=said))
        except HelperError as error:
            raise ValueError(f"verifiers cannot score {trajectory.task.id}: {error}") from error
