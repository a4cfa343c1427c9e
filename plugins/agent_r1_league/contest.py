"""One contest: all rows in one world, under one policy: how right their credit is, and how fast it teaches."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from agent_r1_core.errors import AlgorithmError
from agent_r1_core.plugins import Registry
from agent_r1_core.seeds import derive_seed
from agent_r1_league.entrants import Entrant
from agent_r1_league.estimator import Credit, Estimator, Played
from agent_r1_league.levels import LEVELS, Credited, credited, moments, spread
from agent_r1_league.play import Player
from agent_r1_league.truth import Places, best_score, exact, probabilities
from agent_r1_league.worlds import World


@dataclass(frozen=True)
class Size:
    """How much is played."""

    updates: int = 16
    """Measured, each row on the same episodes."""
    steps: int = 15
    """Of the ascent."""
    groups: int = 4
    samples: int = 8
    warmup: int = 4
    """Updates from which a fitted critic learns before it is measured, or before the ascent begins."""
    stride: float = 0.5
    """Length of a step of the ascent, in logits."""

    @property
    def episodes(self) -> int:
        """Of one update."""
        return self.groups * self.samples

    def share(self, share: float) -> Size:
        """A share of the updates and steps; at least two, for two halves."""
        return replace(self, updates=max(2, round(share * self.updates)), steps=max(2, round(share * self.steps)))


def first_logits(places: Places, seed: int) -> Tensor:
    """The logits [P, V] of a random policy, with a standard deviation of a half."""
    generator = torch.Generator().manual_seed(derive_seed("league", places.world.name, seed))
    return torch.randn(places.allowed.shape, generator=generator, dtype=torch.float64) / 2


Row = dict[str, Any]
"""A row's numbers, or why it has none."""


def contest(world: World, seed: int, rows: Sequence[Entrant], size: Size, registry: Registry) -> dict[str, Row]:
    """Every row's numbers under the seed's policy, by name.

    By level `moments`, of which levels.py makes bias and variance, and `angle`, degrees between one update and the true
    gradient; `angle_of_all`, that of the sum of all updates; `learned`, the mean over the steps of an ascent of the
    share of what can be learnt that was.
    """
    places, results = Places(world), dict[str, Row]()
    measurement = Measurement(places, seed, size)
    for row in rows:
        try:
            results[row.name] = measurement.row(Estimator(row.algorithm(registry), row.critic, places))
            ascent = Estimator(row.algorithm(registry), row.critic, places)
            results[row.name]["learned"] = learned(ascent, places, seed, size)
        except AlgorithmError as error:
            results[row.name] = {"failed": str(error)}
    return results


class Measurement:
    """The episodes on which the rows of a contest are measured."""

    def __init__(self, places: Places, seed: int, size: Size) -> None:
        self._places, self._size = places, size
        self._policy = probabilities(places, first_logits(places, seed))
        self._truth = exact(places, self._policy)
        player, rng = Player(places, self._policy), random.Random(derive_seed("league", places.world.name, seed))
        count = size.warmup + size.updates
        self._rollouts = [player.rollout(rng, size.groups, size.samples, greedy=True) for _ in range(count)]
        self._played = [Played.of(rollout.groups, places) for rollout in self._rollouts]

    def row(self, estimator: Estimator) -> Row:
        """Bias, variance and angles."""
        credits: dict[str, list[Credited]] = {level: [] for level in LEVELS}
        angles: dict[str, list[float]] = {level: [] for level in LEVELS}
        total = torch.zeros_like(self._policy)
        for number, (rollout, played) in enumerate(zip(self._rollouts, self._played, strict=True)):
            if (groups := estimator.groups(rollout)) is not rollout.groups:
                played = Played.of(groups, self._places)
            credit = estimator.credit(played, self._truth)
            if number < self._size.warmup:
                continue
            everywhere, gradients = _everywhere(played, credit), self._gradients(estimator, credit)
            total += gradients["token"]
            for level in LEVELS:
                angles[level].append(angle(gradients[level], self._truth.gradient))
                half = credited(level, everywhere, played, self._truth, self._places, number % 2)
                credits[level].append(half)
        return {
            "moments": {level: moments(level, credits[level]) for level in LEVELS},
            "angle": {level: sum(angles[level]) / len(angles[level]) for level in LEVELS},
            "angle_of_all": angle(total, self._truth.gradient),
        }

    def _gradients(self, estimator: Estimator, credit: Credit | None) -> dict[str, Tensor]:
        """The update's direction with the credit as it is, and with that of each turn or episode made even."""
        if credit is None:
            return dict.fromkeys(LEVELS, torch.zeros_like(self._policy))
        own, gradients = credit.advantages.advantages, dict[str, Tensor]()
        for level in LEVELS:
            even = spread(own, credit.played.batch, level)
            if gradients and torch.equal(even, own):
                gradients[level] = gradients["token"]
                continue
            changed = replace(credit, advantages=replace(credit.advantages, advantages=even))
            gradients[level] = estimator.gradient(changed, self._policy)
        return gradients


def learned(estimator: Estimator, places: Places, seed: int, size: Size) -> float:
    """Ascend from the seed's policy with steps of one length; the mean over the steps of (J - J_0) / (J_best - J_0)."""
    logits = first_logits(places, seed)
    policy = probabilities(places, logits)
    truth = exact(places, policy)
    first, best, scores = truth.score, best_score(places.world), list[float]()
    greedy = estimator.algorithm.needs_greedy_baseline()
    for step in range(-size.warmup if estimator.fits else 0, size.steps):
        rng = random.Random(derive_seed("league", places.world.name, seed, step))
        rollout = Player(places, policy).rollout(rng, size.groups, size.samples, greedy)
        credit = estimator.credit(Played.of(estimator.groups(rollout), places), truth)
        if step < 0:
            continue
        if credit is not None:
            gradient = estimator.gradient(credit, policy)
            logits += size.stride * gradient / gradient.norm().clamp(min=1e-12)
            policy = probabilities(places, logits)
            truth = exact(places, policy)
        scores.append((truth.score - first) / (best - first))
    return sum(scores) / len(scores)


def angle(one: Tensor, other: Tensor) -> float:
    """Degrees between two gradients; 90 where one is nothing."""
    length = one.norm() * other.norm()
    cosine = float((one * other).sum() / length) if length > 0 else 0.0
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))


def _everywhere(played: Played, credit: Credit | None) -> Tensor:
    """The advantages of all episodes, [n, T]: 0 for those that were filtered out."""
    everywhere = torch.zeros(played.batch.ids.shape)
    if credit is not None:
        rows = {id(one): row for row, one in enumerate(played.batch.trajectories)}
        own = credit.advantages.advantages
        everywhere[[rows[id(one)] for one in credit.played.batch.trajectories], : own.shape[1]] = own
    return everywhere
