"""Mean rewards of a rollout, in total and by component."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from agent_r1_core.trajectory import Trajectory


def reward_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Means over episodes: `reward/mean` (the return) and `reward/<component>` (unweighted; a process reward is summed
    over its turns)."""
    if not trajectories:
        return {}
    count = len(trajectories)
    metrics = {"reward/mean": statistics.fmean(one.total_reward for one in trajectories)}
    scores = [_component_scores(one) for one in trajectories]
    for name in sorted({name for row in scores for name in row}):
        metrics[f"reward/{name}"] = sum(row.get(name, 0.0) for row in scores) / count
    return metrics


def _component_scores(trajectory: Trajectory) -> dict[str, float]:
    scores = dict(trajectory.rewards)
    for turn in trajectory.turns:
        for name, value in turn.rewards.items():
            scores[name] = scores.get(name, 0.0) + value
    return scores
