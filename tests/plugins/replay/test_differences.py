"""What is told of two episodes, or of two updates, that differ."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from agent_r1_replay.deriving import cosine
from agent_r1_replay.differences import AdvantageDifferences, TurnDifference, episode_differences, number_differences

from agent_r1_core.testing import make_trajectory
from agent_r1_core.trajectory import Trajectory

THEN = make_trajectory()


def changed(**fields: Any) -> Trajectory:
    """The episode with other fields of its only segment."""
    (segment,) = THEN.segments
    return replace(THEN, segments=[replace(segment, **fields)])


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (THEN, []),
        (replace(THEN, sample=9), ["it is task/9"]),
        (changed(ids=THEN.segments[0].ids[:-1]), [f"other ids from token {THEN.tokens - 1} on, in turn 1"]),
        (changed(ids=[-1, *THEN.segments[0].ids[1:]]), ["other ids from token 0 on, in turn 0"]),
        (changed(mask=[not one for one in THEN.segments[0].mask]), ["another action mask"]),
        (changed(logprobs=[one - 0.5 for one in THEN.segments[0].logprobs]), None),
        (
            changed(logprobs=[math.nan, *THEN.segments[0].logprobs[1:]]),
            ["other log-probs at 1 tokens, by inf at most"],
        ),
        (replace(THEN, answer="Tavelo"), [f"answer {THEN.answer!r} became 'Tavelo'"]),
        (replace(THEN, answer="x" * 99), [f"answer {THEN.answer!r} became '{'x' * 56}..."]),
    ],
)
def test_an_episode_that_is_not_as_recorded(now: Trajectory, told: list[str] | None) -> None:
    found = episode_differences(THEN, now)
    assert found == told if told is not None else found == [f"other log-probs at {THEN.tokens} tokens, by 0.5 at most"]


def test_the_turns_that_two_updates_credit_most_differently_come_first() -> None:
    (first, second), size = THEN.turns, THEN.tokens
    old, new = [0.0] * size, [0.0] * size
    old[first.start : first.stop] = [0.5] * (first.stop - first.start)
    new[first.start : first.stop] = [0.75] * (first.stop - first.start)
    new[second.start : second.stop] = [-1.0] * (second.stop - second.start)
    old[second.start] = 1.0
    found = AdvantageDifferences.of([THEN], [{"advantages": old}], [{"advantages": new}])
    mean = 1.0 / (second.stop - second.start)
    assert found.turns == [TurnDifference(0, 1, pytest.approx(mean), -1.0), TurnDifference(0, 0, 0.5, 0.75)]
    actions = first.stop - first.start + second.stop - second.start
    assert (found.tokens, found.different, found.largest, found.flips) == (actions, actions, 2.0, 1)


def test_numbers_that_are_not_those_of_the_record() -> None:
    then: list[Any] = [{"values": None, "advantages": [0.0, 1.0]}, {"values": None, "advantages": [float("nan"), 2.0]}]
    now: list[Any] = [{"values": [1.0], "advantages": [0.0, 1.0]}, {"values": [1.0], "advantages": [float("nan"), 2.5]}]
    assert number_differences(then, now) == ["advantages of 1 episodes, by 0.5 at most, the first in row 1"]
    assert number_differences(now, now) == []


def test_the_angle_between_gradients_is_that_over_all_weights() -> None:
    def gradient(one: float, *others: float) -> dict[str, torch.Tensor]:
        return {"first": torch.tensor([one]), "second": torch.tensor(others)}

    assert cosine(gradient(3.0, 0.0, 4.0), gradient(4.0, 7.0, 3.0)) == pytest.approx(24 / 5 / 74**0.5)
    assert cosine(gradient(3.0, 4.0), gradient(-6.0, -8.0)) == -1.0
    assert cosine(gradient(3.0, 4.0), gradient(0.0, 0.0)) is None
