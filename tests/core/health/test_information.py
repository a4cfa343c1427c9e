"""Mutual information and retrieval of a matrix of log-probs, against plain loops; what a measurement takes."""

from __future__ import annotations

import math
import random

import pytest

from agent_r1_core.health.information import FirstActions, mutual_information, retrieval_accuracy
from agent_r1_core.testing import make_task, make_trajectory
from agent_r1_core.trajectory import Group


def by_hand(probabilities: list[list[float]], own: list[int]) -> float:
    total = 0.0
    for i in range(len(probabilities)):
        mixture = 0.0
        for j in range(len(probabilities[i])):
            mixture += probabilities[i][j] / len(probabilities[i])
        total += math.log(probabilities[i][own[i]] / mixture)
    return total / len(probabilities)


def test_information_is_that_of_plain_loops() -> None:
    rng = random.Random(0)
    for prompts in (2, 3, 8):
        own = [number % prompts for number in range(8 * prompts)]
        probabilities = [[rng.uniform(1e-6, 1.0) for _ in range(prompts)] for _ in own]
        logprobs = [[math.log(value) for value in row] for row in probabilities]
        assert mutual_information(logprobs, own) == pytest.approx(by_hand(probabilities, own), abs=1e-12)


def test_information_and_retrieval_have_the_bounds_of_their_definition() -> None:
    own = [0, 0, 1, 1, 2, 2]
    template = [[-40.0 - number] * 3 for number in range(6)]
    assert mutual_information(template, own) == pytest.approx(0.0)
    assert retrieval_accuracy(template, own) == pytest.approx(1 / 3)
    apart = [[-50.0 if column == prompt else -5000.0 for column in range(3)] for prompt in own]
    assert mutual_information(apart, own) == pytest.approx(math.log(3)), "far below what a float can hold"
    assert retrieval_accuracy(apart, own) == 1.0
    mixed = [[-1.0, -2.0, -3.0]] * 6
    assert retrieval_accuracy(mixed, own) == pytest.approx(2 / 6)
    assert retrieval_accuracy([[-1.0, -1.0, -3.0]], [1]) == 0.5
    for measure in (mutual_information, retrieval_accuracy):
        with pytest.raises(ValueError, match="zip"):
            measure(mixed, own[:-1])


def group(name: str, *episodes: tuple[list[int], list[int]]) -> Group:
    """Episodes with these prompts and first actions, and a second turn that nobody scores."""
    task = make_task(name)
    turns = [[pair, ([70, 71], [72])] for pair in episodes]
    return Group(task, [make_trajectory(pairs, task=task, sample=sample) for sample, pairs in enumerate(turns)])


def test_a_measurement_takes_first_actions_of_tasks_whose_prompts_differ() -> None:
    groups = [
        group("a", ([1, 2], [3]), ([1, 2], [4, 5])),
        group("same", ([1, 2], [6])),
        group("drawn", ([7], [8]), ([9], [8]), ([7], [10])),
    ]
    assert FirstActions.of(groups) == FirstActions([[1, 2], [7]], [[3], [4, 5], [8], [10]], [0, 0, 1, 1])
    assert FirstActions.of(groups[:2]) is None
    anew = make_trajectory([([5], [6]), ([5], [7])], new_segment_at={1})
    chosen = FirstActions.of([groups[0], Group(anew.task, [anew])])
    assert chosen == FirstActions([[1, 2], [5]], [[3], [4, 5], [6]], [0, 0, 1]), (
        "a second turn is none, whatever it sees"
    )
    assert FirstActions.of([]) is None


def test_a_measurement_has_at_most_eight_prompts_and_eight_samples_of_each() -> None:
    groups = [group(str(number), *[([number + 1], [sample + 20]) for sample in range(9)]) for number in range(9)]
    chosen = FirstActions.of(groups)
    assert chosen.prompts == [[number + 1] for number in range(8)]
    assert chosen.actions == [[sample + 20] for _ in range(8) for sample in range(8)]
    assert chosen.own == [number // 8 for number in range(64)]
