"""Means with 95 % intervals: Wilson for shares, a bootstrap over tasks for everything else; pass@k.

The unit is the task, because samples of one task resemble each other. More samples per task narrow a bootstrap only as
far as they tell more about the task. They never narrow a Wilson interval, which is then conservative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from agent_r1_core.metrics.estimate import Estimate

Z = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""
RESAMPLES = 2000


def estimate(values: Sequence[Sequence[float]], proportion: bool) -> Estimate:
    """Mean and interval of a score.

    Args:
        values: The scores of each task's samples; no task is empty.
        proportion: Whether the score can only be 0 or 1.

    Raises:
        ValueError: there is no task.
    """
    if not values:
        raise ValueError("a score over no tasks has no mean; give it at least one task")
    means = [math.fsum(samples) / len(samples) for samples in values]
    mean, n = math.fsum(means) / len(means), len(means)
    if proportion:
        low, high = wilson(mean, n)
        return Estimate(mean, low, high, "wilson", n)
    if n == 1:
        return Estimate(mean, None, None, "none", n)
    low, high = bootstrap(means)
    return Estimate(mean, low, high, "bootstrap over tasks", n)


def mean_over_sets(estimates: Sequence[Estimate]) -> Estimate:
    """The unweighted mean of a score over independent sets; its `n` is the tasks of all sets together.

    Its interval recovers each set's variance from that set's own interval (MOVER, Zou and Donner 2008, Statistics in
    Medicine 27): mean -+ sqrt(sum of squared distances from the sets' means to their limits) / k.

    Raises:
        ValueError: there is no set.
    """
    if not estimates:
        raise ValueError("a mean over no sets does not exist; give it at least one set")
    k, n = len(estimates), sum(each.n for each in estimates)
    asked = sum(each.asked or each.n for each in estimates)
    if k == 1:
        return estimates[0]
    mean, method = math.fsum(each.mean for each in estimates) / k, f"unweighted mean of {k} sets"
    distances = [
        (each.mean - each.low, each.high - each.mean)
        for each in estimates
        if each.low is not None and each.high is not None
    ]
    if len(distances) < k:
        return Estimate(mean, None, None, method, n).out_of(asked)
    below, above = (math.hypot(*column) / k for column in zip(*distances, strict=True))
    return Estimate(mean, mean - below, mean + above, method, n).out_of(asked)


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's score interval (1927) of a share observed in n trials.

    (p + z^2/2n -+ z sqrt(p (1-p)/n + z^2/4n^2)) / (1 + z^2/n)
    """
    scale = 1 + Z**2 / n
    centre = (share + Z**2 / (2 * n)) / scale
    half = Z * math.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2)) / scale
    # At 0 and 1 the formula gives exactly 0 and 1, except for rounding.
    return max(0.0, centre - half) if share > 0 else 0.0, min(1.0, centre + half) if share < 1 else 1.0


def bootstrap(means: Sequence[float], seed: int = 0, resamples: int = RESAMPLES) -> tuple[float, float]:
    """Percentile bootstrap (Efron 1979) of the mean over tasks; the same seed gives the same interval."""
    import numpy as np

    low, high = np.quantile(resampled_means(means, np.random.default_rng(seed), resamples), [0.025, 0.975])
    return float(low), float(high)


def resampled_means(means: Sequence[float], generator: Any, resamples: int) -> Any:
    """The mean over tasks of each of many samples of as many tasks, drawn with replacement: an array [resamples]."""
    import numpy as np

    values = np.asarray(means, dtype=np.float64)
    # In slices: [resamples, tasks] would not fit into memory for a full development set.
    rows = max(1, 4_000_000 // len(values))
    drawn = []
    for start in range(0, resamples, rows):
        picks = generator.integers(0, len(values), size=(min(rows, resamples - start), len(values)))
        drawn.append(values[picks].mean(axis=1))
    return np.concatenate(drawn)


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Unbiased estimate from n samples of the chance that at least one of k is correct (Chen et al. 2021,
    arXiv 2107.03374): 1 - C(n - c, k) / C(n, k).

    Raises:
        ValueError: there are fewer than k samples.
    """
    if not 1 <= k <= n:
        raise ValueError(f"pass@{k} cannot be estimated from {n} samples; draw at least {k}")
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)
