"""The metrics of a rollout: rewards, episodes, tools, and the spread of returns."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import TYPE_CHECKING

from agent_r1_core.metrics import declared as metric
from agent_r1_core.trajectory import EndStatus, Group, Trajectory, Turn

if TYPE_CHECKING:
    from agent_r1_core.rollout import RolloutResult, ToolCounts

_RUN = 8
"""Tokens of the runs that count as repeated: shorter ones recur in healthy text and in the syntax of calls."""


def rollout_metrics(rollout: RolloutResult) -> dict[str, float]:
    """All metrics of a rollout, by declared name."""
    episodes = rollout.trajectories
    attempts = [trajectory.attempts - 1 for trajectory in (*episodes, *rollout.baselines, *rollout.dropped)]
    sampled = sum(trajectory.action_tokens for trajectory in (*episodes, *rollout.baselines))
    return {
        **reward_metrics(episodes),
        **spread_metrics(rollout.groups),
        **baseline_metrics(rollout),
        metric.TIME_ROLLOUT: rollout.seconds,
        metric.ROLLOUT_EPISODES: float(len(episodes)),
        metric.ROLLOUT_FAILED: float(len(rollout.dropped)),
        metric.ROLLOUT_RETRIES: float(sum(attempts)),
        metric.ROLLOUT_MIXED_GROUPS: float(sum(len(group.versions) > 1 for group in rollout.groups)),
        metric.ROLLOUT_HUNG: float(rollout.tools.hung + rollout.hung),
        metric.ROLLOUT_TOKENS_PER_SECOND: sampled / rollout.seconds if rollout.seconds > 0 else 0.0,
        **tool_metrics(rollout.tools),
        **episode_metrics(episodes),
    }


def reward_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Means over episodes of the return and of each reward, unweighted; a process reward is summed over its turns."""
    if not trajectories:
        return {}
    rewards = [_rewards(trajectory) for trajectory in trajectories]
    names = sorted({name for row in rewards for name in row})
    mean: dict[str, float] = {metric.REWARD_MEAN: statistics.fmean(t.total_reward for t in trajectories)}
    return mean | {metric.REWARD.of(name): sum(row.get(name, 0.0) for row in rewards) / len(rewards) for name in names}


def set_metrics(trajectories: Sequence[Trajectory], sets: Iterable[str]) -> dict[str, float]:
    """The mean return of each training set's episodes; nothing for a set that was not played."""
    returns: dict[str, list[float]] = {name: [] for name in sets}
    for trajectory in trajectories:
        returns[trajectory.task.metadata["source"]].append(trajectory.total_reward)
    return {metric.RETURN_OF_SET.of(name): statistics.fmean(found) for name, found in returns.items() if found}


def spread_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Spread of returns within groups and over all episodes (standard deviations with n - 1, in reward units), and the
    share of groups without spread; groups of one episode do not count."""
    returns = [value for group in groups for value in group.returns]
    metrics: dict[str, float] = {metric.RETURN_STD: statistics.stdev(returns)} if len(returns) > 1 else {}
    several = [group for group in groups if len(group.returns) > 1]
    if several:
        metrics[metric.GROUP_STD] = statistics.fmean(statistics.stdev(group.returns) for group in several)
        metrics[metric.GROUPS_WITHOUT_SPREAD] = sum(not group.varies for group in several) / len(several)
    return metrics


def baseline_metrics(rollout: RolloutResult) -> dict[str, float]:
    """The return of the greedy baselines, and how many failed; nothing where there was none."""
    returns = [trajectory.total_reward for trajectory in rollout.baselines]
    failed = sum(trajectory.baseline for trajectory in rollout.dropped)
    metrics: dict[str, float] = {metric.BASELINE_RETURN: statistics.fmean(returns)} if returns else {}
    return metrics | ({metric.BASELINE_FAILED: float(failed)} if returns or failed else {})


def tool_metrics(tools: ToolCounts) -> dict[str, float]:
    """Calls, errors and time, of all tools together and of each tool, and each tool's own metrics."""
    metrics: dict[str, float] = {
        metric.TOOL_CALLS: float(tools.calls),
        metric.TOOL_ERRORS: float(tools.errors),
        metric.TOOL_TIMEOUTS: float(tools.timeouts),
        metric.TIME_TOOLS: tools.seconds,
    }
    for name, count in sorted(tools.by_tool.items()):
        if name and count.calls:
            metrics[metric.CALLS_OF_TOOL.of(name)] = float(count.calls)
            metrics[metric.ERRORS_OF_TOOL.of(name)] = float(count.errors)
            metrics[metric.SECONDS_OF_TOOL.of(name)] = count.seconds / count.calls
            metrics |= {f"tools/{name}/{key}": total / n for key, (total, n) in count.numbers.items()}
    return metrics


def episode_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Means over episodes, shares of turns, and the environment's own numbers."""
    if not trajectories:
        return {}
    n, turns = len(trajectories), [turn for trajectory in trajectories for turn in trajectory.steps]
    metrics: dict[str, float] = {
        metric.EPISODE_TURNS: len(turns) / n,
        metric.EPISODE_ACTION_TOKENS: sum(episode.action_tokens for episode in trajectories) / n,
        metric.EPISODE_TOKENS: sum(episode.tokens for episode in trajectories) / n,
        metric.EPISODE_SEGMENTS: sum(len(episode.segments) for episode in trajectories) / n,
        metric.EPISODE_TERMINATED: sum(episode.status is EndStatus.TERMINATED for episode in trajectories) / n,
        metric.EPISODE_ANSWERED: sum(episode.answer is not None for episode in trajectories) / n,
        metric.EPISODE_CUT_ACTIONS: sum(turn.finish == "length" for turn in turns) / max(1, len(turns)),
        metric.EPISODE_MALFORMED: sum(bool(turn.errors) for turn in turns) / max(1, len(turns)),
        metric.EPISODE_REPETITION: _repetition(trajectories),
    }
    calls = sum(len(turn.calls) for turn in turns)
    if calls:
        metrics[metric.EPISODE_REPEATED_CALLS] = sum(map(_repeated_calls, trajectories)) / calls
    judged = [float(episode.success) for episode in trajectories if episode.success is not None]
    if judged:
        metrics[metric.EPISODE_SUCCESS] = statistics.fmean(judged)
    return metrics | _summary_metrics(trajectories) | _env_metrics(turns)


def _summary_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """How many summaries there were, and how many were no good; nothing where no policy wrote one."""
    summaries = [turn for trajectory in trajectories for turn in trajectory.turns if turn.purpose == "summary"]
    if not summaries:
        return {}
    return {
        metric.EPISODE_SUMMARIES: len(summaries) / len(trajectories),
        metric.EPISODE_CUT_SUMMARIES: sum(turn.finish == "length" for turn in summaries) / len(summaries),
        metric.EPISODE_EMPTY_SUMMARIES: sum(bool(turn.errors) for turn in summaries) / len(summaries),
    }


def _rewards(trajectory: Trajectory) -> dict[str, float]:
    """Each reward of an episode, process rewards summed over the turns."""
    rewards = dict(trajectory.rewards)
    for turn in trajectory.turns:
        for name, value in turn.rewards.items():
            rewards[name] = rewards.get(name, 0.0) + value
    return rewards


def _repetition(trajectories: Iterable[Trajectory]) -> float:
    """The share of an action's runs of `_RUN` tokens that occurred earlier in it, over all actions."""
    runs = distinct = 0
    for trajectory in trajectories:
        for turn in trajectory.turns:
            ids = trajectory.segments[turn.segment].ids[turn.start : turn.stop]
            found = [tuple(ids[at : at + _RUN]) for at in range(len(ids) - _RUN + 1)]
            runs, distinct = runs + len(found), distinct + len(set(found))
    return 1 - distinct / runs if runs else 0.0


def _repeated_calls(trajectory: Trajectory) -> int:
    """How many tool calls repeat an earlier one."""
    calls = [call for turn in trajectory.turns for call in turn.calls]
    return len(calls) - len({json.dumps([call.name, call.arguments], sort_keys=True, default=str) for call in calls})


def _env_metrics(turns: Iterable[Turn]) -> dict[str, float]:
    """The mean of each number in the turns' `info`, over the turns that have it."""
    values: dict[str, list[float]] = {}
    for turn in turns:
        for key, value in turn.info.items():
            if isinstance(value, Real) and math.isfinite(value):
                values.setdefault(metric.ENV.of(key), []).append(float(value))
    return {name: statistics.fmean(numbers) for name, numbers in sorted(values.items())}
