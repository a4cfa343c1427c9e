"""A score over several seeds: the mean, with an interval for other seeds and other tasks.

A seed is a training run or, of a model that no run here trained, an evaluation that samples with another seed. Few
seeds say little about others, so their part of the interval is Student's t: with three seeds 2.2 times as wide as a
normal one, and 2.7 times as wide as that of a bootstrap over the seeds, which would be too narrow.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from agent_r1_core.evaluation.intervals import estimate
from agent_r1_core.metrics.estimate import Estimate

Values = Mapping[str, Sequence[float]]
"""The scores of one seed: those of each task's samples, by task id."""


def mean_over_seeds(seeds: Sequence[Values], proportion: bool, bounded: bool = False) -> Estimate:
    """The mean of the seeds' means; its `n` counts tasks.

    Two parts, joined as in MOVER (Zou and Donner 2008): mean -+ sqrt(seeds^2 + tasks^2), where `seeds` is
    t(k - 1) s / sqrt(k) with s the standard deviation of the k seeds' means, and `tasks` is the distance to the limit
    of the interval over tasks (Wilson or bootstrap) when each task counts with its mean over the seeds. What depends on
    both seed and task is in both parts, so the interval is a little too wide rather than too narrow. The seeds need not
    have the same tasks. A single seed has only the second part, which says nothing about other seeds.

    Args:
        seeds: each seed's scores.
        proportion: whether the score can only be 0 or 1.
        bounded: whether it lies between 0 and 1, as F1 does and every proportion; its interval then does, too.

    Raises:
        ValueError: there is no seed, or one without tasks.
    """
    means = [seed_mean(values) for values in seeds]
    if not means:
        raise ValueError("a score over no seeds has no mean; give it at least one seed")
    return joined(means, estimate(list(by_task(seeds).values()), proportion), proportion or bounded)


def joined(means: Sequence[float], over_tasks: Estimate, bounded: bool) -> Estimate:
    """The mean of the seeds' means, whose interval joins theirs with the one over tasks; see `mean_over_seeds`.

    Args:
        means: the mean of each seed.
        over_tasks: the estimate when each task counts with its mean over the seeds.
        bounded: whether the score lies between 0 and 1.
    """
    if len(means) == 1:
        return over_tasks
    k, mean, n = len(means), statistics.fmean(means), over_tasks.n
    method = f"{k} seeds (t), {n} tasks ({over_tasks.method.removesuffix(' over tasks')})"
    if over_tasks.low is None or over_tasks.high is None:
        return Estimate(mean, None, None, method, n)
    seed_part = t_quantile(k - 1) * standard_error(means)
    low = mean - math.hypot(seed_part, over_tasks.mean - over_tasks.low)
    high = mean + math.hypot(seed_part, over_tasks.high - over_tasks.mean)
    if bounded:
        low, high = max(0.0, low), min(1.0, high)
    return Estimate(mean, low, high, method, n)


def standard_error(means: Sequence[float]) -> float:
    """That of the mean of several seeds' means; 0 for a single one, which says nothing about others."""
    return statistics.stdev(means) / math.sqrt(len(means)) if len(means) > 1 else 0.0


def seed_mean(values: Values) -> float:
    """The mean over the seed's tasks; a ValueError where it has none."""
    if not values:
        raise ValueError("a seed without tasks has no mean; leave it out, or evaluate it")
    return statistics.fmean(map(statistics.fmean, values.values()))


def by_task(seeds: Sequence[Values]) -> dict[str, list[float]]:
    """For each task the mean scores of the seeds that have it."""
    tasks: dict[str, list[float]] = {}
    for values in seeds:
        for task, samples in values.items():
            tasks.setdefault(task, []).append(statistics.fmean(samples))
    return tasks


def t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t with so many degrees of freedom, by bisection."""
    low, high = 0.0, 13.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _central(middle, freedom) < 0.95 else (low, middle)
    return high


def _central(t: float, freedom: int) -> float:
    """P(|T| < t), a finite sum for whole degrees of freedom (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    square, odd = math.cos(angle) ** 2, freedom % 2
    term, total = math.cos(angle) if odd else 1.0, 0.0
    for power in range(1 + odd, freedom, 2):
        total += term
        term *= square * power / (power + 1)
    return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
