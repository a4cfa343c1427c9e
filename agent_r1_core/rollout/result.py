"""RolloutResult: the episodes of a rollout in groups, with the time and tool calls that they took."""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from agent_r1_core.metrics import declared as metric
from agent_r1_core.metrics.rollouts import episode_metrics, reward_metrics, spread_metrics
from agent_r1_core.metrics.tally import tally
from agent_r1_core.rollout.plan import OnEpisode, RolloutRequest, group_episodes
from agent_r1_core.tools.tool_counts import ToolCounts
from agent_r1_core.trajectory import EndStatus, Group, Trajectory


@dataclass(frozen=True)
class RolloutResult:
    """The outcome of a rollout."""

    groups: list[Group] = field(default_factory=list)
    """In the order of the tasks, those of a task by player; a task has none if all its episodes failed."""
    dropped: list[Trajectory] = field(default_factory=list)
    """Episodes that failed at every attempt: counted, never trained on (LAW 5)."""
    seconds: float = 0.0
    """Wall time."""
    tools: ToolCounts = field(default_factory=ToolCounts)
    """Calls of tools; what is hung counts those of environments and rewards, too."""

    @classmethod
    def of(
        cls, request: RolloutRequest, episodes: Sequence[Trajectory], seconds: float, tools: ToolCounts
    ) -> RolloutResult:
        """The result of a request whose episodes, in the order of its plans, have ended."""
        dropped = [episode for episode in episodes if episode.status is EndStatus.FAILED]
        return cls(group_episodes(request, episodes), dropped, seconds, tools)

    @property
    def trajectories(self) -> list[Trajectory]:
        """The trajectories of all groups, in order."""
        return [trajectory for group in self.groups for trajectory in group.trajectories]

    @property
    def episodes(self) -> list[Trajectory]:
        """The episodes that did not fail, in order, as player 0 saw them."""
        return [trajectory for trajectory in self.trajectories if trajectory.player == 0]

    @property
    def baselines(self) -> list[Trajectory]:
        """The greedy baselines of the groups that have one, in order."""
        return [group.baseline for group in self.groups if group.baseline is not None]

    @cached_property
    def metrics(self) -> dict[str, float]:
        """The rollout's metrics, by their declared names."""
        episodes = [tally(trajectory) for trajectory in self.trajectories]
        attempts = [one.attempts - 1 for one in (*self.episodes, *self.baselines, *self.dropped) if not one.player]
        return {
            **reward_metrics(episodes),
            **spread_metrics(self.groups),
            **self._baseline_metrics(),
            **self._branch_metrics(),
            metric.TIME_ROLLOUT: self.seconds,
            metric.ROLLOUT_EPISODES: float(len(self.episodes)),
            metric.ROLLOUT_FAILED: float(len(self.dropped)),
            metric.ROLLOUT_RETRIES: float(sum(attempts)),
            metric.ROLLOUT_MIXED_GROUPS: float(sum(len(group.versions) > 1 for group in self.groups)),
            metric.ROLLOUT_HUNG: float(self.tools.hung),
            **self._speed(),
            **self.tools.metrics(),
            **episode_metrics(episodes),
        }

    def _baseline_metrics(self) -> dict[str, float]:
        """The return of the greedy baselines, and how many failed; nothing where there was none."""
        returns = [trajectory.total_reward for trajectory in self.baselines]
        failed = sum(trajectory.baseline for trajectory in self.dropped)
        metrics: dict[str, float] = {metric.BASELINE_RETURN: statistics.fmean(returns)} if returns else {}
        return metrics | ({metric.BASELINE_FAILED: float(failed)} if returns or failed else {})

    def _branch_metrics(self) -> dict[str, float]:
        """How much was repeated; nothing where no episode branched off."""
        repeated = sum(one.repeated_tokens for one in self.trajectories)
        if not repeated:
            return {}
        branches = sum(one.branched_from is not None for one in self.episodes)
        tokens = sum(one.action_tokens for one in self.trajectories)
        return {metric.ROLLOUT_BRANCHED: branches / len(self.episodes), metric.ROLLOUT_REPEATED: repeated / tokens}

    def _speed(self) -> dict[str, float]:
        """Tokens a second; nothing where episodes were demonstrated."""
        if any(one.demonstrated for one in self.trajectories):
            return {}
        played = (*self.trajectories, *self.baselines)
        sampled = sum(one.action_tokens - one.repeated_tokens for one in played)
        return {metric.ROLLOUT_TOKENS_PER_SECOND: sampled / self.seconds if self.seconds > 0 else 0.0}

    def __add__(self, other: RolloutResult) -> RolloutResult:
        return RolloutResult(
            self.groups + other.groups,
            self.dropped + other.dropped,
            self.seconds + other.seconds,
            self.tools + other.tools,
        )


Collect = Callable[[RolloutRequest, OnEpisode | None], Awaitable[RolloutResult]]
"""Plays a request."""
