"""What the league calls true equals an average over all episodes that can happen, which this file lists by itself."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from agent_r1_league.truth import AFTER, Places, best_score, exact
from agent_r1_league.worlds import WORLDS, World, bifurcation, corridor, key, search, tool

Place = tuple[str, str]
SMALL = (bifurcation(2), corridor(3), key(2), tool(2), search())


@dataclass
class Episode:
    probability: float
    steps: list[tuple[Place, str, int]]
    """Place, letter, and the turn."""
    rewards: list[float]
    """By turn."""


def episodes(world: World, policy: dict[Place, dict[str, float]]) -> Iterator[Episode]:
    """All that can happen, each with its probability."""
    for start, probability in world.starts.items():
        yield from _from(world, policy, start, Episode(probability, [], []))


def _from(world: World, policy: dict[Place, dict[str, float]], state: str, past: Episode) -> Iterator[Episode]:
    for word, outcomes in world.states[state].actions.items():
        steps = [((state, word[:end]), letter, len(past.rewards)) for end, letter in enumerate(word)]
        chance = past.probability * math.prod(policy[place][letter] for place, letter, _ in steps)
        for outcome in outcomes:
            next_one = Episode(chance * outcome.probability, [*past.steps, *steps], [*past.rewards, outcome.reward])
            if outcome.state is None:
                yield next_one
            else:
                yield from _from(world, policy, outcome.state, next_one)


def some_policy(world: World) -> dict[Place, dict[str, float]]:
    rng, policy = random.Random(1), dict[Place, dict[str, float]]()
    for name, state in world.states.items():
        for word in state.actions:
            for end, letter in enumerate(word):
                policy.setdefault((name, word[:end]), {})[letter] = rng.uniform(0.2, 1.0)
    return {place: {a: p / sum(odds.values()) for a, p in odds.items()} for place, odds in policy.items()}


@pytest.mark.parametrize("world", SMALL, ids=lambda world: world.name)
def test_values_advantages_and_gradient_are_those_of_all_episodes(world: World) -> None:
    policy, places = some_policy(world), Places(world)
    chances = torch.zeros(places.allowed.shape, dtype=torch.float64)
    for place, odds in policy.items():
        for letter, probability in odds.items():
            chances[places.numbers[place], places.tokens[letter]] = probability
    truth = exact(places, chances)

    every = list(episodes(world, policy))
    assert sum(one.probability for one in every) == pytest.approx(1)
    seen: dict[Place, list[float]] = defaultdict(lambda: [0.0, 0.0])
    taken: dict[tuple[Place, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    slopes: dict[tuple[Place, str], float] = defaultdict(float)
    for one in every:
        for place, letter, turn in one.steps:
            to_come = sum(one.rewards[turn:])
            word = place[1] + letter
            counted = [(seen[place], to_come), (taken[place, letter], to_come)]
            if word in world.states[place[0]].actions:
                counted.append((seen[place[0], word + AFTER], sum(one.rewards[turn + 1 :])))
            for sums, value in counted:
                sums[0] += one.probability
                sums[1] += one.probability * value
            for other, probability in policy[place].items():
                slopes[place, other] += one.probability * sum(one.rewards) * ((other == letter) - probability)

    assert truth.score == pytest.approx(sum(one.probability * sum(one.rewards) for one in every))
    assert set(seen) == set(places.numbers)
    for place, (weight, total) in seen.items():
        assert float(truth.values[places.numbers[place]]) == pytest.approx(total / weight), place
    for (place, letter), (weight, total) in taken.items():
        at = places.numbers[place], places.tokens[letter]
        advantage = total / weight - seen[place][1] / seen[place][0]
        assert float(truth.advantages[at]) == pytest.approx(advantage, abs=1e-12), (place, letter)
        assert float(truth.gradient[at]) == pytest.approx(slopes[place, letter], abs=1e-12), (place, letter)
    assert int((truth.gradient != 0).sum()) <= len(taken)


def test_the_best_policy_of_each_world_is_the_one_that_a_reader_expects() -> None:
    best = {name: best_score(world) for name, world in WORLDS.items()}
    walks = sum(math.comb(8, steps) * 0.8**steps * 0.2 ** (8 - steps) for steps in range(5, 9))
    easy = max(0.6, -0.05 + 0.5 + 0.5 * max(0.6, -0.05 + 0.5 + 0.5 * (-0.05 + 0.5 + 0.5 * 0.6)))
    hard = -0.05 + 0.5 + 0.5 * (-0.05 + 0.5 + 0.5 * (-0.05 + 0.5 + 0.5 * 0.1))
    expected = {"bifurcation": 0.8, "corridor": walks, "key": 1.4, "tool": (easy + hard) / 2, "search": 1.0}
    assert best == pytest.approx(expected)
