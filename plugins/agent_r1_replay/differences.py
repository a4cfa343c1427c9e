"""What differs between a record and its repetition, or between two updates.

Numbers of tokens are compared as float32, as files hold them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agent_r1_core.trajectory import Trajectory

if TYPE_CHECKING:
    from agent_r1_replay.recorded import Numbers

Array = NDArray[Any]
_ENDS = (
    "status", "reason", "answer", "bootstrap", "reward", "rewards", "seed", "attempts", "examples", "repeated_turns",
    "hinted",
)  # fmt: skip
_TURNS = ("text", "finish", "reward", "rewards", "state_key", "versions", "purpose")


def episode_differences(then: Trajectory, now: Trajectory) -> list[str]:
    """How an episode that was sampled again differs, first what came first; times, notes and infos do not count."""
    found = []
    if then.id != now.id:
        return [f"it is {now.id}"]
    ids = [[one for segment in each.segments for one in segment.ids] for each in (then, now)]
    lengths = [[len(segment.ids) for segment in each.segments] for each in (then, now)]
    if ids[0] != ids[1] or lengths[0] != lengths[1]:
        place = next((k for k, (a, b) in enumerate(zip(*ids, strict=False)) if a != b), min(map(len, ids)))
        return [f"other ids from token {place} on, in turn {_turn_at(then, place)}"]
    if [segment.mask for segment in then.segments] != [segment.mask for segment in now.segments]:
        found.append("another action mask")
    logprobs = [floats([one for segment in each.segments for one in segment.logprobs]) for each in (then, now)]
    apart = different(*logprobs)
    if apart.any():
        found.append(f"other log-probs at {int(apart.sum())} tokens, by {_largest(*logprobs):.2g} at most")
    for before, after in zip(then.turns, now.turns, strict=False):
        found += [f"turn {before.index}: {text}" for text in _fields(before, after, _TURNS)]
    return found + _fields(then, now, _ENDS)


def _fields(then: object, now: object, names: Sequence[str]) -> list[str]:
    pairs = {name: (getattr(then, name), getattr(now, name)) for name in names}
    return [f"{name} {_shown(old)} became {_shown(new)}" for name, (old, new) in pairs.items() if old != new]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _turn_at(trajectory: Trajectory, place: int) -> int:
    """The turn that sampled the id at this place of all segments, or would read it next."""
    starts = trajectory.starts
    stops = [starts[turn.segment] + turn.stop for turn in trajectory.turns]
    return next((turn for turn, stop in enumerate(stops) if place < stop), max(0, len(stops) - 1))


@dataclass(frozen=True)
class TurnDifference:
    """The mean advantages of an action's tokens."""

    row: int
    turn: int
    recorded: float
    derived: float


@dataclass(frozen=True)
class AdvantageDifferences:
    """How two updates credit the tokens of the same trajectories."""

    tokens: int
    """Tokens with an advantage other than 0 in either."""
    different: int
    mean: float
    """Of the absolute differences, over `tokens`."""
    largest: float
    flips: int
    """Tokens whose advantages have opposite signs."""
    turns: list[TurnDifference]
    """The turns with the largest differences of their means."""

    @classmethod
    def of(
        cls, trajectories: Sequence[Trajectory], then: Sequence[Numbers], now: Sequence[Numbers], most: int = 8
    ) -> AdvantageDifferences:
        old, new = (
            [_advantages(one, numbers) for one, numbers in zip(trajectories, each, strict=True)] for each in (then, now)
        )
        flat, derived = (np.concatenate([np.zeros(0, np.float32), *each]) for each in (old, new))
        credited = (flat != 0) | (derived != 0)
        apart = np.abs(flat - derived)[credited]
        turns = []
        for row, trajectory in enumerate(trajectories):
            starts = trajectory.starts
            for turn in trajectory.turns:
                span = slice(starts[turn.segment] + turn.start, starts[turn.segment] + turn.stop)
                if turn.stop > turn.start:
                    means = (float(each[row][span].mean()) for each in (old, new))
                    turns.append(TurnDifference(row, turn.index, *means))
        changed = [one for one in turns if one.recorded != one.derived]
        changed.sort(key=lambda one: -abs(one.recorded - one.derived))
        return cls(
            int(credited.sum()),
            int((apart > 0).sum()),
            float(apart.mean()) if len(apart) else 0.0,
            float(apart.max(initial=0.0)),
            int((flat * derived < 0).sum()),
            changed[:most],
        )


def _advantages(trajectory: Trajectory, numbers: Numbers) -> Array:
    """Those of all ids; 0 where the update left the trajectory out."""
    known = numbers["advantages"]
    return np.zeros(trajectory.tokens, np.float32) if known is None else floats(known)


def number_differences(then: Sequence[Numbers], now: Sequence[Numbers]) -> list[str]:
    """Which numbers of tokens are not the recorded ones, bit for bit; what a run did not record does not count."""
    found = []
    for name in dict.fromkeys(name for one in then for name in one):
        old, new = ([one[name] for one in each] for each in (then, now))
        if all(one is None for one in old):
            continue
        rows = [row for row, (a, b) in enumerate(zip(old, new, strict=True)) if different(floats(a), floats(b)).any()]
        if rows:
            most = max(_largest(floats(old[row]), floats(new[row])) for row in rows)
            found.append(f"{name} of {len(rows)} episodes, by {most:.2g} at most, the first in row {rows[0]}")
    return found


def metric_differences(then: Mapping[str, Any], now: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Metrics of an update that are not the recorded ones, with both values."""
    both = {name: (float(then[name]), float(now[name])) for name in now if name in then}
    return {name: pair for name, pair in both.items() if pair[0] != pair[1] and not all(map(math.isnan, pair))}


def floats(values: Sequence[float] | None) -> Array:
    return np.asarray([] if values is None else values, np.float32)


def different(one: Array, other: Array) -> Array:
    """bool [n], where two arrays differ; NaN equals NaN. Arrays of two lengths differ everywhere."""
    if one.shape != other.shape:
        return np.ones(max(one.size, other.size), bool)
    return (one != other) & ~(np.isnan(one) & np.isnan(other))


def _largest(one: Array, other: Array) -> float:
    """The largest difference; infinite between a number and none."""
    if one.shape != other.shape:
        return math.inf
    apart = np.abs(one - other)
    apart[different(one, other) & np.isnan(apart)] = math.inf
    return float(np.nanmax(apart, initial=0.0))
