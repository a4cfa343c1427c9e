"""Episodes: one at a time, and many at once."""

from __future__ import annotations

from agent_r1_core.rollout.collector import Collector, RolloutResult
from agent_r1_core.rollout.episode import Episode, Stage
from agent_r1_core.rollout.settings import RolloutSettings, WeightedReward
from agent_r1_core.rollout.tool_runner import DEFAULT_TIMEOUT, ToolCounts, ToolRunner

__all__ = [
    "DEFAULT_TIMEOUT",
    "Collector",
    "Episode",
    "RolloutResult",
    "RolloutSettings",
    "Stage",
    "ToolCounts",
    "ToolRunner",
    "WeightedReward",
]
