"""Scores turns and episodes; a reward that raises, hangs or leaves its range fails the episode (LAW 5).

Rewards that compare the episodes of one task score whole groups; one that breaks fails the group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from agent_r1_core.contracts.reward import NotedScore, RewardFn, SamplingPolicy, allowed, in_range
from agent_r1_core.errors import ConfigError, EpisodeError, LearnerLost, describe_error
from agent_r1_core.rollout.result import RolloutResult
from agent_r1_core.rollout.settings import ToolReward, WeightedReward
from agent_r1_core.tools.calling import call_within
from agent_r1_core.tools.plain import Unfit, number_of, plain, shown, stored
from agent_r1_core.tools.threads import CallTimeout, ThreadPool
from agent_r1_core.trajectory import EndStatus, Group, Trajectory, Turn

RESERVED = ("env", "mean")
"""Names in records and metrics for the environment's own reward and for the return."""
Note = dict[str, Any]
"""What a reward says of a score."""
_AT_ONCE = 16
"""Groups that are scored in threads at a time."""


class Scorer:
    """Applies the rewards of a run."""

    def __init__(
        self, rewards: Sequence[WeightedReward], threads: ThreadPool, tools: Mapping[str, ToolReward] | None = None
    ) -> None:
        """`tools` are those that give rewards.

        Raises:
            ConfigError: two rewards have one name, or one that means something else in metrics.
        """
        self._tools = dict(tools or {})
        names = [weighted.reward.name for weighted in rewards]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ConfigError(f"reward {repeated[0]!r} is listed twice; list it once, with the weights added up")
        both = [name for name in names if name in self._tools]
        if both:
            raise ConfigError(f"a reward and a tool that gives rewards are both named {both[0]!r}; rename one of them")
        taken = [name for name in (*names, *self._tools) if name in RESERVED]
        if taken:
            raise ConfigError(f"a reward is named {taken[0]!r}, which means something else in metrics; rename it")
        self._rewards = list(rewards)
        self._threads = threads

    async def score_turn(self, turn: Turn, trajectory: Trajectory) -> None:
        """Add every process reward to the turn: unweighted in `rewards`, weighted in `reward`. `rewards` already holds
        what tools gave its calls.

        Raises:
            EpisodeError: a reward is broken.
        """
        for name, tool in self._tools.items():
            given = within_cap(turn.rewards.pop(name, 0.0), tool.cap, name, trajectory)
            turn.rewards[name] = given
            turn.reward += tool.weight * given
        for weighted in self._scoped("turn"):
            reward = weighted.reward
            score, note = await self._score(weighted, partial(reward.score_turn, turn, trajectory), trajectory)
            score = within_cap(score, weighted.lowest_cap, reward.name, trajectory)
            turn.rewards[reward.name] = score
            turn.reward += weighted.weight * score
            if note:
                turn.notes[reward.name] = note

    async def score_episode(self, trajectory: Trajectory) -> None:
        """Set the outcome rewards of a finished trajectory; an EpisodeError where a reward is broken."""
        for weighted in self._scoped("episode"):
            function = partial(weighted.reward.score, trajectory)
            set_outcome(trajectory, weighted, *await self._score(weighted, function, trajectory))

    def _scoped(self, scope: str) -> list[WeightedReward]:
        return [weighted for weighted in self._rewards if weighted.reward.scope == scope]

    async def _score(
        self, weighted: WeightedReward, function: Callable[[], Any], trajectory: Trajectory
    ) -> tuple[float, Note]:
        reward, timeout = weighted.reward, weighted.timeout
        name = f"reward {reward.name}"
        try:
            score, note = await call_score(self._threads, function, timeout, name=name, convert=noted)
            return checked(score, reward), note
        except Unfit as unfit:
            raise EpisodeError(f"{name} of episode {trajectory.id} {unfit}") from unfit.__cause__


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
        failed = [one for group, good in zip(rollout.groups, scored, strict=True) if not good for one in _played(group)]
        tools = replace(rollout.tools, hung=rollout.tools.hung + self._threads.hung - before)
        return replace(rollout, groups=kept, dropped=[*rollout.dropped, *failed], tools=tools)

    def close(self) -> None:
        """Let idle threads end."""
        self._threads.close()

    async def _score(self, group: Group) -> bool:
        """Add the rewards to the group's episodes, or mark these as failed; whether all went well."""
        episodes = _played(group)
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


def _played(group: Group) -> list[Trajectory]:
    """The episodes of a group, its baseline too."""
    return [*group.trajectories, *([group.baseline] if group.baseline is not None else [])]


def checked(score: float, reward: RewardFn) -> float:
    """The score; raises Unfit if it is outside the reward's range."""
    if not in_range(score, reward.range):
        low, high = allowed(reward.range)
        raise Unfit(
            f"is {score:g}, outside its declared range {low:g} to {high:g}; fix the score, or `range` of its class"
        )
    return score


def set_outcome(trajectory: Trajectory, weighted: WeightedReward, score: float, note: Note) -> None:
    """Add an outcome reward to a finished trajectory."""
    trajectory.rewards[weighted.reward.name] = score
    trajectory.reward += weighted.weight * score
    if note:
        trajectory.turns[-1].notes[weighted.reward.name] = note


class TooSlow(Unfit):
    """A score took longer than its time-out."""


async def call_score(
    threads: ThreadPool,
    function: Callable[[], Any],
    timeout: float,
    *,
    name: str,
    convert: Callable[[Any], Any],
) -> Any:
    """What `convert` makes of the score that an author's function gives, sync or async (LAW 9).

    Raises:
        TooSlow: it took longer than `timeout` seconds; the text follows the function's name.
        Unfit: it raised, or gave no score; this text follows it, too.
        TooManyLeft: too many calls that were given up still run.
        LearnerLost: it asked the learner.
    """
    await threads.wait_for_room()
    try:
        return await call_within(threads, function, timeout, name=name, convert=convert)
    except CallTimeout:
        raise TooSlow(f"took longer than {timeout:g} seconds; make it faster, or raise its timeout") from None
    except (Unfit, LearnerLost):
        raise
    except Exception as error:
        raise Unfit(f"failed with {describe_error(error)}; fix it") from error


def number(value: Any) -> float:
    """An author's score as a plain float; raises Unfit if it is no number."""
    given = plain(value)
    score = number_of(given)
    if score is None:
        raise Unfit(f"is {shown(given)}; a score must be a number: return a float")
    return score


def noted(value: Any) -> tuple[float, Note]:
    """An author's score as a plain float, and its note; raises Unfit if it is no number."""
    note = vars(value).get("note") if isinstance(value, NotedScore) else None
    return number(value), plain(note) if isinstance(note, dict) else {}


def within_cap(reward: float, cap: float | None, name: str, trajectory: Trajectory) -> float:
    """The part of the next reward that the cap leaves: the sum over the episode's turns stays from -cap to cap."""
    if cap is None:
        return reward
    earned = sum(turn.rewards.get(name, 0.0) for turn in trajectory.turns)
    return min(max(reward, -cap - earned), cap - earned)
