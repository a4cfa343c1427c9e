"""RolloutRequest: what a trainer, an evaluation or a command asks rollouts for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_r1_core.trajectory import Task


@dataclass(frozen=True)
class RolloutRequest:
    """Play tasks, each several times."""

    tasks: Sequence[Task]
    """One group each."""
    samples: int = 1
    """Episodes of each task."""
    round: int | str = 0
    """Part of every seed: the training step, or the name of an evaluation (LAW 11)."""
    greedy: bool = False
    """Take the likeliest token; else sample as the run says."""
    split: str = "train"
    """Whose tools and corpus the episodes use."""
    version: int | None = None
    """Of the weights that must sample the episodes; None: those that are served."""
