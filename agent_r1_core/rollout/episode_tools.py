"""EpisodeTools: the run's tools as one episode sees them, with its own state and its own random numbers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_r1_core.contracts.tool import ToolContext
from agent_r1_core.contracts.tool_format import ToolCall, ToolResult
from agent_r1_core.seeds import derive_seed
from agent_r1_core.tools.tool_runner import ToolRunner
from agent_r1_core.trajectory import Task


@dataclass
class EpisodeTools:
    """`EnvServices.call_tools` of one episode."""

    runner: ToolRunner
    episode: str
    task: Task
    seed: int
    turn: int = 0
    rewards: dict[str, float] = field(default_factory=dict)
    """What the tools gave the calls of this turn, by tool."""
    state: dict[str, Any] = field(default_factory=dict)

    async def __call__(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Run the calls of an action concurrently; results in their order."""
        running = [self.runner.call(call, self._context(index)) for index, call in enumerate(calls)]
        rewards = self.rewards
        results = list(await asyncio.gather(*running))
        for call, result in zip(calls, results, strict=True):
            rewards[call.name] = rewards.get(call.name, 0.0) + result.reward
        return results

    def begin_turn(self, turn: int) -> None:
        """The calls that follow are of this turn; what earlier ones still earn is lost."""
        self.turn, self.rewards = turn, {}

    def _context(self, index: int) -> ToolContext:
        rng = random.Random(derive_seed(self.seed, "tool", self.turn, index))
        return ToolContext(self.episode, self.turn, self.task, rng, self.state)
