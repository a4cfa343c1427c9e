"""EpisodeServices: what a collector gives to each of its episodes."""

from __future__ import annotations

from dataclasses import dataclass

from agent_r1_core.chat import ChatTokenizer, DriftGuard
from agent_r1_core.rollout.scoring import Scorer
from agent_r1_core.rollout.settings import RolloutSettings
from agent_r1_core.rollout.world import ToolTexts
from agent_r1_core.tools.threads import ThreadPool


@dataclass(frozen=True)
class EpisodeServices:
    """What the episodes of one rollout share."""

    settings: RolloutSettings
    tokenizer: ChatTokenizer
    scorer: Scorer
    guard: DriftGuard
    threads: ThreadPool
    tool_texts: ToolTexts
    greedy: bool = False
