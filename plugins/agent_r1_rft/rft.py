"""Rejection-sampling fine-tuning (RFT, Yuan et al., arXiv 2308.01825): the policy learns from its own successes.

Of each task's episodes those that succeed are kept (contracts/success.py says which), without those whose action tokens
an earlier one has too, and at most `per_task` of them. The others are in no loss and in no normaliser. What is kept
becomes likelier, as in sft (learning/likelihood.py).

With the weights of each step this is the loop of STaR (Zelikman et al., 2203.14465), without its rationalisation and
without its return to the first model; a single pass over episodes of the first model is RFT as published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field

from agent_r1_core import Group, Metric, Trajectory
from agent_r1_core.contracts.algorithm import AlgorithmConfig
from agent_r1_core.contracts.success import PER_TASK, distinct_successes, succeeded
from agent_r1_core.learning.likelihood import MaximumLikelihood


class RFT(MaximumLikelihood):
    """Learning from one's own successes."""

    metrics = (
        *MaximumLikelihood.metrics,
        Metric("succeeded", "episodes of the rollout that are successes", unit="episodes", better="higher"),
        Metric("kept", "successes that were learnt from: no duplicates, and not too many of a task", unit="episodes"),
    )

    class Config(AlgorithmConfig):
        """Options of rejection-sampling fine-tuning."""

        success_at: float | None = None
        """Least return of a success. null: what the environment calls a success, or, where it does not say, a return of
        at least 1."""
        per_task: int = Field(PER_TASK, ge=1)
        """Most successes of a task that a step learns from, the first ones, so that easy tasks do not crowd out the
        others."""

    def filter(self, groups: Sequence[Group]) -> list[Group]:
        """The groups with a success, each with those alone that are learnt from."""
        chosen = [replace(group, trajectories=self._kept(group)) for group in groups]
        return [group for group in chosen if group.trajectories]

    def filter_metrics(self, groups: Sequence[Group], kept: Sequence[Group]) -> dict[str, float]:
        """How many episodes succeeded, and how many of those are kept."""
        played = [one for group in groups for one in group.trajectories]
        return {
            "succeeded": float(sum(succeeded(one, self.config.success_at) for one in played)),
            "kept": float(sum(len(group.trajectories) for group in kept)),
        }

    def _kept(self, group: Group) -> list[Trajectory]:
        return list(distinct_successes(group.trajectories, self.config.success_at, self.config.per_task))
