"""The task source `seeds`: one task per seed, for environments that generate their own start.

Seeds are consecutive numbers; the ranges for training and evaluation must not overlap.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from agent_r1_core import ComponentConfig, Task, TaskSource


class Seeds(TaskSource):
    """Tasks that differ only in `task.seed`; they have no accepted answers."""

    class Config(ComponentConfig):
        size: int = Field(1000, ge=1)
        """Number of seeds, and so of tasks."""
        first: int = Field(0, ge=0)
        """The first seed. Evaluate on other seeds than those of training, e.g. `first: 1000000`."""
        prompt: str = Field("Begin.", min_length=1)
        """The prompt of every task, for environments that show it to the policy."""

    def load(self) -> Sequence[Task]:
        """One task per seed, in order; the id contains the seed."""
        seeds = range(self.config.first, self.config.first + self.config.size)
        return [Task(f"seed.{seed}", self.config.prompt, seed=seed) for seed in seeds]
