"""Metrics of a rollout: rewards by component, lengths, how episodes ended. Plain means over episodes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from agent_r1_core.trajectory import EndStatus, Trajectory


def trajectory_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Means over the episodes that did not fail: `reward/mean` (the return), `reward/<component>` (unweighted; a
    process reward is summed over its turns), `episode/*` (turns, tokens, action tokens, shares by end status)."""
    if not trajectories:
        return {}
    count = len(trajectories)
    metrics = {"reward/mean": statistics.fmean(one.total_reward for one in trajectories)}
    scores = [_component_scores(one) for one in trajectories]
    for name in sorted({name for row in scores for name in row}):
        metrics[f"reward/{name}"] = sum(row.get(name, 0.0) for row in scores) / count
    metrics["episode/turns"] = statistics.fmean(len(one.turns) for one in trajectories)
    metrics["episode/tokens"] = statistics.fmean(one.tokens for one in trajectories)
    metrics["episode/action_tokens"] = statistics.fmean(one.action_tokens for one in trajectories)
    metrics["episode/answered"] = sum(one.answer is not None for one in trajectories) / count
    metrics["episode/truncated"] = sum(one.status == EndStatus.TRUNCATED for one in trajectories) / count
    actions = [turn for one in trajectories for turn in one.turns]
    if actions:
        metrics["episode/cut_actions"] = sum(turn.finish == "length" for turn in actions) / len(actions)
        metrics["episode/action_errors"] = sum(bool(turn.info.get("errors")) for turn in actions) / len(actions)
    return metrics


def _component_scores(trajectory: Trajectory) -> dict[str, float]:
    scores = dict(trajectory.rewards)
    for turn in trajectory.turns:
        for name, value in turn.rewards.items():
            scores[name] = scores.get(name, 0.0) + value
    return scores
