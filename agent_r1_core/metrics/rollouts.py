"""The metrics of a rollout's episodes: rewards, the spread of returns, and what the episodes were like."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from agent_r1_core.contracts.success import judged
from agent_r1_core.metrics import declared as metric
from agent_r1_core.trajectory import Trajectory, differ


def reward_metrics(each: Any) -> dict[str, float]:
    """Means over episodes of the return and of each reward, unweighted; a process reward is summed over its turns.

    Args:
        each: the episodes, as `tallies` gives them.
    """
    if not each.rewards:
        return {}
    rewards = each.rewards
    names = sorted({name for row in rewards for name in row})
    total: dict[str, float] = {metric.REWARD_MEAN: statistics.fmean(each.total_reward)}
    return total | {metric.REWARD.of(name): sum(row.get(name, 0.0) for row in rewards) / len(rewards) for name in names}


def set_metrics(trajectories: Sequence[Trajectory], sets: Iterable[str]) -> dict[str, float]:
    """The mean return of each training set's episodes; nothing for a set that was not played."""
    returns: dict[str, list[float]] = {name: [] for name in sets}
    for trajectory in trajectories:
        returns[trajectory.task.metadata["source"]].append(trajectory.total_reward)
    return {metric.RETURN_OF_SET.of(name): statistics.fmean(found) for name, found in returns.items() if found}


def spread_metrics(groups: Sequence[Sequence[float]]) -> dict[str, float]:
    """Spread of returns within groups and over all episodes (standard deviations with n - 1, in reward units), and the
    share of groups without spread; groups of one episode do not count.

    Args:
        groups: the returns of each.
    """
    returns = [value for own in groups for value in own]
    metrics: dict[str, float] = {metric.RETURN_STD: statistics.stdev(returns)} if len(returns) > 1 else {}
    several = [own for own in groups if len(own) > 1]
    if several:
        stdev = cache(statistics.stdev)  # exact, so that order is nothing to it; most groups have the returns of others
        metrics[metric.GROUP_STD] = statistics.fmean(stdev(tuple(sorted(own))) for own in several)
        metrics[metric.GROUPS_WITHOUT_SPREAD] = sum(not differ(min(own), max(own)) for own in several) / len(several)
    return metrics


def episode_metrics(each: Any) -> dict[str, float]:
    """Means over episodes, shares of turns, and the environment's own numbers; `each` as in `reward_metrics`."""
    if not each.turns:
        return {}
    n, turns, runs = len(each.turns), sum(each.turns), sum(each.runs)
    metrics: dict[str, float] = {
        metric.EPISODE_TURNS: turns / n,
        metric.EPISODE_ACTION_TOKENS: sum(each.action_tokens) / n,
        metric.EPISODE_TOKENS: sum(each.tokens) / n,
        metric.EPISODE_SEGMENTS: sum(each.segments) / n,
        metric.EPISODE_TERMINATED: sum(each.terminated) / n,
        metric.EPISODE_ANSWERED: sum(each.answered) / n,
        metric.EPISODE_CUT_ACTIONS: sum(each.cut_turns) / max(1, turns),
        metric.EPISODE_MALFORMED: sum(each.malformed_turns) / max(1, turns),
        metric.EPISODE_REPETITION: 1 - sum(each.distinct_runs) / runs if runs else 0.0,
    }
    calls, summaries = sum(each.calls), sum(each.summaries)
    if calls:
        metrics[metric.EPISODE_REPEATED_CALLS] = sum(each.repeated_calls) / calls
    successes = judged(each.success, [not terminated for terminated in each.terminated])
    known = [float(success) for success in successes if success is not None]
    if known:
        metrics[metric.EPISODE_SUCCESS] = statistics.fmean(known)
    if summaries:
        metrics[metric.EPISODE_SUMMARIES] = summaries / n
        metrics[metric.EPISODE_CUT_SUMMARIES] = sum(each.cut_summaries) / summaries
        metrics[metric.EPISODE_EMPTY_SUMMARIES] = sum(each.empty_summaries) / summaries
    return metrics | _means("env", each.env) | _means("reward", each.notes)


def _means(prefix: str, episodes: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, float]:
    """The mean of each number, over the turns that have it."""
    values: dict[str, list[float]] = {}
    for episode in episodes:
        for key, numbers in episode.items():
            values.setdefault(f"{prefix}/{key}", []).extend(numbers)
    return {name: mean(numbers) for name, numbers in sorted(values.items())}


# Authors' numbers may be as large as a float can be: no sum may overflow.
SCALE = 2.0**-64
"""A sum of numbers that were multiplied by it stays finite; a power of two changes no digit of theirs."""


def mean(values: Collection[float]) -> float:
    """The mean of finite numbers."""
    return mean_of_sum(math.fsum(value * SCALE for value in values), len(values))


def mean_of_sum(scaled: float, count: int) -> float:
    """The mean of numbers whose sum is given, each multiplied by `SCALE`."""
    return max(-sys.float_info.max, min(sys.float_info.max, scaled / count / SCALE))
