"""The learning rate as a pure function of the step: nothing to save, nothing to lose on resume."""

from __future__ import annotations

import math

from agent_r1_core.contracts.training import Schedule


def lr_factor(step: int, steps: int, warmup_steps: int, schedule: Schedule) -> float:
    """Factor of the learning rate in (0, 1] at `step`, which counts from 1: step / warmup_steps during the warm-up,
    then 1, or a line or half a cosine from 1 towards 0, which step `steps + 1` would reach."""
    if step <= warmup_steps:
        return max(step, 1) / warmup_steps
    if schedule == "constant":
        return 1.0
    progress = (step - 1 - warmup_steps) / max(1, steps - warmup_steps)
    progress = min(max(progress, 0.0), 1.0)
    return 1.0 - progress if schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))
