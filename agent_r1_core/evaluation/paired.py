"""Differences of two policies on the same questions: an interval for their mean, and an exact or sampled p-value.

An unbounded score whose differences are mostly 0 and rarely large has no interval that covers with few questions; this
one then holds the truth less often than 95 times in 100.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agent_r1_core.evaluation.intervals import mean_over_sets
from agent_r1_core.evaluation.seeds import standard_error, t_quantile
from agent_r1_core.metrics.estimate import Estimate

RESAMPLES = 10_000
LEVEL = 0.05
"""Of the intervals, and of the p-values below which they leave out 0."""
_ROUNDING = 1e-9
"""Relative difference of two sums that counts as rounding."""


def paired_difference(
    sets: Sequence[Sequence[float]], seeds: Sequence[Sequence[float]], bounded: bool
) -> tuple[Estimate, float | None]:
    """The unweighted mean over sets of their mean difference, and its p-value. A single question has no interval and
    no p-value; where `paired_mean` gives no interval, there is none.

    Its interval joins those of the sets, and each policy's t(k - 1) s / sqrt(k) over its k seeds, by the squares of
    their widths, as in `mean_over_seeds`; it is stretched to 0 where p is .05 or more.

    Args:
        sets: of each set, first minus second of each question.
        seeds: of both policies, the mean of each seed.
        bounded: whether the score lies between 0 and 1.
    """
    import numpy as np

    # Of all sets: one without a difference says nothing about how large its others can be.
    most = 1.0 if bounded else max((abs(value) for differences in sets for value in differences), default=0.0)
    over_tasks = mean_over_sets([paired_mean(differences, most, bounded) for differences in sets])
    mean, low, high = over_tasks.mean, over_tasks.low, over_tasks.high
    if over_tasks.n == 1:
        return replace(over_tasks, low=None, high=None), None
    generator, spread, beside = np.random.default_rng(0), None, 0.0
    for means in seeds:
        if (freedom := len(means) - 1) > 0:
            error = standard_error(means)
            spread = (0.0 if spread is None else spread) + error * generator.standard_t(freedom, RESAMPLES)
            beside = math.hypot(beside, t_quantile(freedom) * error)
    parts = [value / len(differences) / len(sets) for differences in sets for value in differences]
    p = sign_flip_p(parts, generator, spread)
    if low is None or high is None:
        return over_tasks, p
    low, high = mean - math.hypot(mean - low, beside), mean + math.hypot(high - mean, beside)
    if bounded:
        low, high = max(-1.0, low), min(1.0, high)
    if p >= LEVEL:
        low, high = min(low, 0.0), max(high, 0.0)
    return replace(over_tasks, low=low, high=high), p


def paired_mean(differences: Sequence[float], most: float, bounded: bool) -> Estimate:
    """The mean difference with its 95 % interval: Student's t after two made-up questions, of which each policy wins
    one by `most`. For 0/1 scores Bonett and Price (2012, Statistical Methods in Medical Research 21) add the
    same two, with the normal distribution in place of t.

    With N = n + 2 differences d, the two included: mean -+ t(N - 1) s / sqrt(N), s their standard deviation.

    Args:
        differences: first minus second, of each question.
        most: the largest difference there can be, or that was seen; 0: there is no interval.
        bounded: whether there can be no larger one.

    Raises:
        ValueError: there is no question.
    """
    if not differences:
        raise ValueError("a difference over no questions has no mean; give it at least one question")
    n, total = len(differences), math.fsum(differences)
    if most == 0:
        return Estimate(total / n, None, None, "paired", n)
    centre = total / (n + 2)
    squares = math.fsum((one - centre) ** 2 for one in (*differences, most, -most))
    half = t_quantile(n + 1) * math.sqrt(squares / ((n + 1) * (n + 2)))
    low, high = centre - half, centre + half
    if bounded:
        low, high = max(-most, low), min(most, high)
    return Estimate(total / n, low, high, "paired", n)


def sign_flip_p(parts: Sequence[float], generator: Any, spread: Any = None) -> float:
    """Two-sided p-value of the sum of `parts`: the share of random signs that bring the sum as far from 0.

    It asks whether the two policies would have done as well with their names exchanged on any question (Fisher 1935).
    Exact where all parts that are not 0 are as large, as with 0/1 scores (the sign test, or McNemar's exact one), or
    where there are few; else sampled.

    Args:
        parts: what each question adds to the mean difference.
        spread: [RESAMPLES] draws of what else moves the sum; None: nothing does.
    """
    import numpy as np

    moved = np.asarray([part for part in parts if part != 0.0], dtype=np.float64)
    wins, count = int((moved > 0).sum()), len(moved)
    far = abs(math.fsum(parts)) * (1 - _ROUNDING)
    if spread is not None:
        drawn = np.abs(_random_sums(moved, generator) + spread)
        return (1 + int((drawn >= far).sum())) / (1 + RESAMPLES)
    sizes = np.abs(moved)
    if not count or sizes.max() - sizes.min() <= _ROUNDING * sizes.max():
        return _sign_test(wins, count - wins)
    if 2**count <= RESAMPLES:
        signs = (np.arange(2**count)[:, None] >> np.arange(count) & 1) * 2 - 1
        return float((np.abs(signs @ moved) >= far).mean())
    return (1 + int((np.abs(_random_sums(moved, generator)) >= far).sum())) / (1 + RESAMPLES)


def _sign_test(wins: int, losses: int) -> float:
    """P that so many fair coins fall as unequally, either way."""
    count, term, total = wins + losses, 1, 0
    for k in range(min(wins, losses) + 1):
        total += term
        term = term * (count - k) // (k + 1)
    return min(1.0, 2 * total / 2**count)


def _random_sums(parts: Any, generator: Any) -> Any:
    """Sums of the parts under random signs, [RESAMPLES]."""
    import numpy as np

    # In slices: [RESAMPLES, questions] would not fit into memory for a full development set.
    rows = max(1, 4_000_000 // max(1, len(parts)))
    sums = []
    for start in range(0, RESAMPLES, rows):
        kept = generator.integers(0, 2, size=(min(rows, RESAMPLES - start), len(parts)), dtype=np.int8)
        sums.append(2 * (kept @ parts) - parts.sum())
    return np.concatenate(sums)
