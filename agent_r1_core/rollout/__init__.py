"""Episodes: one at a time, and many at once."""

from __future__ import annotations

from agent_r1_core.rollout.collector import Collector
from agent_r1_core.rollout.episode import Episode, EpisodeServices
from agent_r1_core.rollout.measuring import Measurer
from agent_r1_core.rollout.plan import OnEpisode, RolloutRequest
from agent_r1_core.rollout.result import Collect, RolloutResult
from agent_r1_core.rollout.settings import RolloutSettings, ToolReward, WeightedReward

__all__ = [
    "Collect",
    "Collector",
    "Episode",
    "EpisodeServices",
    "Measurer",
    "OnEpisode",
    "RolloutRequest",
    "RolloutResult",
    "RolloutSettings",
    "ToolReward",
    "WeightedReward",
]
