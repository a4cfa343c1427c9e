"""Scores groups: the rewards that compare the episodes of one task; one that breaks fails the group (LAW 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from agent_r1_core.contracts.reward import SamplingPolicy
from agent_r1_core.rollout.result import RolloutResult
from agent_r1_core.rollout.scoring import Note, call_score, checked, noted, set_outcome
from agent_r1_core.rollout.settings import WeightedReward
from agent_r1_core.tools.plain import Unfit, stored
from agent_r1_core.tools.threads import ThreadPool
from agent_r1_core.trajectory import EndStatus, Group, Trajectory

_AT_ONCE = 16
"""Groups that are scored in threads at a time."""


class GroupScorer:
    """Applies the rewards of scope `group` to finished rollouts.

    Args:
        policy: the one that sampled, for rewards that ask it; None: none of them does.
    """

    def __init__(self, rewards: Sequence[WeightedReward], policy: SamplingPolicy | None = None) -> None:
        self._rewards = [weighted for weighted in rewards if weighted.reward.scope == "group"]
        self._threads = ThreadPool(_AT_ONCE)
        asking = [weighted.reward for weighted in self._rewards if weighted.reward.asks_policy]
        for reward in asking:
            if policy is not None:
                reward.connect_policy(policy)
        self.asks_policy = bool(asking)
        """Whether the learner must be free to answer."""

    async def score(self, rollout: RolloutResult) -> RolloutResult:
        """The rollout with these rewards added to its episodes, baselines too; a group that cannot be scored has
        failed.

        Raises:
            LearnerLost: a reward asked the learner.
        """
        if not self._rewards:
            return rollout
        before = self._threads.hung
        if self.asks_policy:  # one learner answers, and no group's time is to hold that of the others
            scored = [await self._score(group) for group in rollout.groups]
        else:
            scored = await asyncio.gather(*map(self._score, rollout.groups))
        kept = [group for group, good in zip(rollout.groups, scored, strict=True) if good]
        failed = [one for group, good in zip(rollout.groups, scored, strict=True) if not good for one in _all(group)]
        tools = replace(rollout.tools, hung=rollout.tools.hung + self._threads.hung - before)
        return replace(rollout, groups=kept, dropped=[*rollout.dropped, *failed], tools=tools)

    def close(self) -> None:
        """Let idle threads end."""
        self._threads.close()

    async def _score(self, group: Group) -> bool:
        """Add the rewards to the group's episodes, or mark these as failed; whether all went well."""
        episodes = _all(group)
        for weighted in self._rewards:
            try:
                scores = await self._scores(weighted, episodes)
            except Unfit as unfit:
                problem = f"reward {weighted.reward.name} of task {group.task.id} {unfit}"
                for episode in episodes:
                    episode.status, episode.reason, episode.answer = EndStatus.FAILED, problem, None
                return False
            for episode, score in zip(episodes, scores, strict=True):
                set_outcome(episode, weighted, *score)
        return True

    async def _scores(self, weighted: WeightedReward, episodes: Sequence[Trajectory]) -> list[tuple[float, Note]]:
        def convert(value: Any) -> list[tuple[float, Note]]:
            if not isinstance(value, list | tuple) or len(value) != len(episodes):
                raise Unfit(f"gave no list of {len(episodes)} scores; return one for each episode, in their order")
            return [noted(one) for one in stored(value)]

        reward = weighted.reward
        function = partial(reward.score_group, episodes)
        name = f"reward {reward.name}"
        scores = await call_score(self._threads, function, weighted.timeout, name=name, convert=convert)
        return [(checked(score, reward), note) for score, note in scores]


def _all(group: Group) -> list[Trajectory]:
    return [*group.trajectories, *([group.baseline] if group.baseline is not None else [])]
