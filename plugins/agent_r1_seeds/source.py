"""The task source `seeds`: one task per seed, for environments that generate their own start.

Seeds are consecutive numbers: sets for training and for evaluation must not overlap.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from agent_r1_core import ComponentConfig, Task, TaskSource


class Seeds(TaskSource):
    """Tasks that are told apart by `task.seed` alone; they have no accepted answers."""

    class Config(ComponentConfig):
        size: int = Field(1000, ge=1)
        """Seeds, and so tasks."""
        first: int = Field(0, ge=0)
        """The first seed. Evaluate on others than those of training, e.g. `first: 1000000`."""
        prompt: str = Field("Begin.", min_length=1)
        """What every task says, for environments that show it to the policy."""

    def load(self) -> Sequence[Task]:
        """One task per seed, in order; the id names the seed."""
        seeds = range(self.config.first, self.config.first + self.config.size)
        return [Task(f"seed.{seed}", self.config.prompt, seed=seed) for seed in seeds]
