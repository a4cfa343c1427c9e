"""Metrics of a rollout; times in seconds, shares between 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Real
from statistics import fmean

from agent_r1_core.rollout.tool_runner import ToolCounts
from agent_r1_core.trajectory import EndStatus, Trajectory, Turn


def rollout_metrics(
    trajectories: Sequence[Trajectory], seconds: float, before: ToolCounts, after: ToolCounts, hung: int
) -> dict[str, float]:
    """Summarise a rollout.

    Args:
        trajectories: every episode, failed ones included.
        seconds: the rollout's wall time.
        before: the tools' counts when it began.
        after: and when it ended.
        hung: calls of environments and rewards that were given up.
    """
    kept = [one for one in trajectories if one.status is not EndStatus.FAILED]
    sampled = sum(one.action_tokens for one in kept)
    metrics = {
        "time/rollout": seconds,
        "rollout/episodes": float(len(kept)),
        "rollout/failed": float(len(trajectories) - len(kept)),
        "rollout/retries": float(sum(one.attempts - 1 for one in trajectories)),
        "rollout/hung": float(after.hung - before.hung + hung),
        "rollout/tokens_per_second": sampled / seconds if seconds > 0 else 0.0,
        "tools/calls": float(after.calls - before.calls),
        "tools/errors": float(after.errors - before.errors),
        "tools/timeouts": float(after.timeouts - before.timeouts),
        "time/tools": after.seconds - before.seconds,
    }
    if kept:
        turns = [turn for one in kept for turn in one.turns]
        metrics |= {
            "episode/turns": len(turns) / len(kept),
            "episode/action_tokens": sampled / len(kept),
            "episode/tokens": sum(one.tokens for one in kept) / len(kept),
            "episode/segments": sum(len(one.segments) for one in kept) / len(kept),
            "episode/terminated": sum(one.status is EndStatus.TERMINATED for one in kept) / len(kept),
            "episode/answered": sum(one.answer is not None for one in kept) / len(kept),
            "episode/cut_actions": sum(turn.finish == "length" for turn in turns) / max(1, len(turns)),
            "episode/malformed": sum(bool(turn.errors) for turn in turns) / max(1, len(turns)),
        }
        metrics |= success_metrics(kept) | info_metrics(turns)
    return metrics


def success_metrics(trajectories: Iterable[Trajectory]) -> dict[str, float]:
    """`episode/success`: share of the episodes that reached their goal, of those whose environment says so."""
    said = [float(one.success) for one in trajectories if one.success is not None]
    return {"episode/success": fmean(said)} if said else {}


def info_metrics(turns: Iterable[Turn]) -> dict[str, float]:
    """`env/<key>`: the mean of each number that environments noted in `info`, over the turns that have it."""
    values: dict[str, list[float]] = {}
    for turn in turns:
        for key, value in turn.info.items():
            if isinstance(value, Real) and math.isfinite(value):
                values.setdefault(f"env/{key}", []).append(float(value))
    return {name: fmean(numbers) for name, numbers in sorted(values.items())}
