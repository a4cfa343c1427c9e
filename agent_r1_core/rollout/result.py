"""RolloutResult: the episodes of a rollout in groups, with the time and tool calls that they took."""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

from agent_r1_core.metrics import declared as metric
from agent_r1_core.metrics.rollouts import episode_metrics, reward_metrics, spread_metrics
from agent_r1_core.metrics.tally import tallies
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
        each = tallies(self.trajectories)
        ends = list(accumulate((len(group.trajectories) for group in self.groups), initial=0))
        spans = [slice(*pair) for pair in pairwise(ends)]
        return {
            **reward_metrics(each),
            **spread_metrics([each.total_reward[span] for span in spans]),
            **self._baseline_metrics(),
            **_branch_metrics(each),
            metric.TIME_ROLLOUT: self.seconds,
            metric.ROLLOUT_EPISODES: float(each.player.count(0)),
            metric.ROLLOUT_FAILED: float(len(self.dropped)),
            metric.ROLLOUT_RETRIES: float(self._retries(each)),
            metric.ROLLOUT_MIXED_GROUPS: float(self._mixed_groups(each.versions, spans)),
            metric.ROLLOUT_HUNG: float(self.tools.hung),
            **self._speed(each),
            **self.tools.metrics(),
            **episode_metrics(each),
        }

    def _retries(self, each: Any) -> int:
        """Starts of episodes beyond the first, which are told of player 0."""
        starts = sum(attempts - 1 for attempts, player in zip(each.attempts, each.player, strict=True) if not player)
        return starts + sum(one.attempts - 1 for one in (*self.baselines, *self.dropped) if not one.player)

    def _mixed_groups(self, versions: Sequence[Mapping[int, int]], spans: Sequence[slice]) -> int:
        """How many groups mix policies (LAW 7)."""
        greedy = [set() if group.baseline is None else group.baseline.versions for group in self.groups]
        return sum(len(found.union(*versions[span])) > 1 for found, span in zip(greedy, spans, strict=True))

    def _baseline_metrics(self) -> dict[str, float]:
        """The return of the greedy baselines, and how many failed; nothing where there was none."""
        returns = [trajectory.total_reward for trajectory in self.baselines]
        failed = sum(trajectory.baseline for trajectory in self.dropped)
        metrics: dict[str, float] = {metric.BASELINE_RETURN: statistics.fmean(returns)} if returns else {}
        return metrics | ({metric.BASELINE_FAILED: float(failed)} if returns or failed else {})

    def _speed(self, each: Any) -> dict[str, float]:
        """Tokens a second; nothing where episodes were demonstrated."""
        if any(each.unsampled):
            return {}
        sampled = sum(each.action_tokens) - sum(each.repeated_tokens)
        sampled += sum(one.action_tokens - one.repeated_tokens for one in self.baselines)
        return {metric.ROLLOUT_TOKENS_PER_SECOND: sampled / self.seconds if self.seconds > 0 else 0.0}

    def __add__(self, other: RolloutResult) -> RolloutResult:
        return RolloutResult(
            self.groups + other.groups,
            self.dropped + other.dropped,
            self.seconds + other.seconds,
            self.tools + other.tools,
        )


def _branch_metrics(each: Any) -> dict[str, float]:
    """How much was repeated; nothing where no episode branched off."""
    repeated = sum(each.repeated_tokens)
    if not repeated:
        return {}
    branches = sum(branched for branched, player in zip(each.branched, each.player, strict=True) if not player)
    return {
        metric.ROLLOUT_BRANCHED: branches / each.player.count(0),
        metric.ROLLOUT_REPEATED: repeated / sum(each.action_tokens),
    }


Collect = Callable[[RolloutRequest, OnEpisode | None], Awaitable[RolloutResult]]
"""Plays a request."""
