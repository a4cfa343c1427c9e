"""RolloutRequest: what a trainer, an evaluation or a command asks the collector to play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_r1_core.trajectory import ObservationSource, Task


@dataclass(frozen=True)
class RolloutRequest:
    """Play tasks, each several times."""

    tasks: Sequence[Task]
    """Each becomes one group."""
    samples: int = 1
    """Episodes of each task."""
    round: int | str = 0
    """Part of every seed: the training step, or the name of an evaluation (LAW 11)."""
    greedy: bool = False
    """Take the likeliest token; else sample as the run says."""
    split: str = "train"
    """Which tools and corpus the episodes use."""
    version: int | None = None
    """Version of the weights that must sample the episodes; None: the version being served."""
    greedy_baseline: bool = False
    """Play each task once more, greedily, as the baseline of its group."""
    demonstrations: ObservationSource | None = None
    """Play the tasks' demonstrations, and where their observations come from; None: the policy plays."""
