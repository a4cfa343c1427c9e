"""Tally: all that the metrics of a rollout count in one episode.

It is counted from an episode's turns and tokens. An episode of another process brings its tally along and stays packed
(`tally.register`).
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch
from numbers import Real
from typing import Any, NamedTuple

from agent_r1_core.trajectory import EndStatus, Trajectory

_RUN = 8
"""Tokens of the runs that count as repeated: shorter ones recur in healthy text and in the syntax of calls."""


class Tally(NamedTuple):
    """The counts of an episode."""

    total_reward: float
    rewards: dict[str, float]
    """Each reward, unweighted; a process reward is summed over the turns."""
    versions: dict[int, int]
    """Sampled tokens by the version of the weights, as far as it is known."""
    terminated: bool
    answered: bool
    success: bool | None
    segments: int
    tokens: int
    action_tokens: int
    turns: int
    """Those that the environment answered."""
    cut_turns: int
    malformed_turns: int
    runs: int
    """Runs of tokens within an action that could repeat one another."""
    distinct_runs: int
    calls: int
    repeated_calls: int
    summaries: int
    cut_summaries: int
    empty_summaries: int
    env: dict[str, list[float]]
    """The environment's own numbers, in the order of the turns."""
    notes: dict[str, list[float]]
    """Numbers that rewards noted, by reward and key, in the order of the turns."""
    player: int
    attempts: int
    unsampled: bool
    """Its actions are those of a demonstration."""
    branched: bool
    repeated_tokens: int


@singledispatch
def tally(trajectory: Trajectory) -> Tally:
    turns = trajectory.steps
    summaries = [turn for turn in trajectory.turns if turn.purpose == "summary"]
    runs, distinct = _runs(trajectory)
    calls, repeated = _calls(trajectory)
    return Tally(
        total_reward=trajectory.total_reward,
        rewards=earned_rewards(trajectory),
        versions=trajectory.tokens_by_version,
        terminated=trajectory.status is EndStatus.TERMINATED,
        answered=trajectory.answer is not None,
        success=trajectory.success,
        segments=len(trajectory.segments),
        tokens=trajectory.tokens,
        action_tokens=trajectory.action_tokens,
        turns=len(turns),
        cut_turns=sum(turn.finish == "length" for turn in turns),
        malformed_turns=sum(bool(turn.errors) for turn in turns),
        runs=runs,
        distinct_runs=distinct,
        calls=calls,
        repeated_calls=repeated,
        summaries=len(summaries),
        cut_summaries=sum(turn.finish == "length" for turn in summaries),
        empty_summaries=sum(bool(turn.errors) for turn in summaries),
        env=_numbers((key, value) for turn in turns for key, value in turn.info.items()),
        notes=_numbers(
            (f"{name}/{key}", value)
            for turn in trajectory.turns
            for name, note in turn.notes.items()
            for key, value in note.items()
        ),
        player=trajectory.player,
        attempts=trajectory.attempts,
        unsampled=trajectory.demonstrated is not None,
        branched=trajectory.branched_from is not None,
        repeated_tokens=trajectory.repeated_tokens,
    )


COLUMNS: dict[type[Trajectory], Callable[[Sequence[Any]], Any]] = {}
"""What tallies many episodes of one type at once, as `tallies` does."""


def tallies(trajectories: Sequence[Trajectory]) -> Any:
    """The counts of episodes in columns: a Tally of sequences, in the order of the episodes."""
    kinds = {type(one) for one in trajectories}
    if len(kinds) == 1 and (columns := COLUMNS.get(kinds.pop())):
        return columns(trajectories)
    rows = [tally(one) for one in trajectories]
    return Tally._make(zip(*rows, strict=True)) if rows else Tally._make([()] * len(Tally._fields))


def earned_rewards(trajectory: Trajectory) -> dict[str, float]:
    """What the episode got by each reward, unweighted: outcome and turns together."""
    rewards = dict(trajectory.rewards)
    for turn in trajectory.turns:
        for name, value in turn.rewards.items():
            rewards[name] = rewards.get(name, 0.0) + value
    return rewards


def _runs(trajectory: Trajectory) -> tuple[int, int]:
    """Runs of `_RUN` tokens in all actions, and how many of them had not occurred earlier in their action."""
    runs = distinct = 0
    for turn in trajectory.turns:
        ids = trajectory.segments[turn.segment].ids[turn.start : turn.stop]
        found = [tuple(ids[at : at + _RUN]) for at in range(len(ids) - _RUN + 1)]
        runs, distinct = runs + len(found), distinct + len(set(found))
    return runs, distinct


def _calls(trajectory: Trajectory) -> tuple[int, int]:
    """Tool calls of the steps, and how many calls repeat an earlier one."""
    calls = [call for turn in trajectory.turns for call in turn.calls]
    distinct = len({json.dumps([call.name, call.arguments], sort_keys=True, default=str) for call in calls})
    return sum(len(turn.calls) for turn in trajectory.steps), len(calls) - distinct


def _numbers(values: Iterable[tuple[str, Any]]) -> dict[str, list[float]]:
    """The numbers among values by key; those that are infinite, NaN or larger than any float are none of a metric."""
    found: dict[str, list[float]] = {}
    for key, value in values:
        number: Any = value if isinstance(value, Real) else math.nan
        if abs(number) <= sys.float_info.max:
            found.setdefault(key, []).append(float(number))
    return found
