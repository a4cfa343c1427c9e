"""Means with 95 % intervals: Wilson for shares, a bootstrap over tasks for everything else; pass@k.

The unit is the task, because samples of one task resemble each other. More samples per task narrow a bootstrap only as
far as they tell more about the task. They never narrow a Wilson interval, which is then conservative.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence

from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.metrics.estimate import Estimate
from agent_r1_core.metrics.scorers import EXACT_MATCH, PASS_AT, Score

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
    means = [statistics.fmean(samples) for samples in values]
    mean, n = statistics.fmean(means), len(means)
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
    mean, method = statistics.fmean(each.mean for each in estimates), f"unweighted mean of {k} sets"
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


def bootstrap(means: Sequence[float], resamples: int = RESAMPLES) -> tuple[float, float]:
    """Percentile bootstrap (Efron 1979) of the mean over tasks; the same means give the same interval."""
    import numpy as np

    generator, values = np.random.default_rng(0), np.asarray(means, dtype=np.float64)
    # In slices: [resamples, tasks] would not fit into memory for a full development set.
    rows = max(1, 4_000_000 // len(values))
    drawn = []
    for start in range(0, resamples, rows):
        picks = generator.integers(0, len(values), size=(min(rows, resamples - start), len(values)))
        drawn.append(values[picks].mean(axis=1))
    low, high = np.quantile(np.concatenate(drawn), [0.025, 0.975])
    return float(low), float(high)


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Unbiased estimate from n samples of the chance that at least one of k is correct (Chen et al. 2021,
    arXiv 2107.03374): 1 - C(n - c, k) / C(n, k).

    Raises:
        ValueError: there are fewer than k samples.
    """
    if not 1 <= k <= n:
        raise ValueError(f"pass@{k} cannot be estimated from {n} samples; draw at least {k}")
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


def finished_tasks(episodes: Sequence[EpisodeRecord]) -> list[list[EpisodeRecord]]:
    """The episodes of each task that did not fail; tasks without any are left out."""
    return _by_task(episode for episode in episodes if not episode.failed)


def values_of(score: Score, tasks: Sequence[Sequence[EpisodeRecord]]) -> dict[str, list[float]]:
    """The values of each task's samples, by task id; tasks without the score are left out."""
    values = {task[0].task: [value for one in task if (value := score.measure(one)) is not None] for task in tasks}
    return {task: samples for task, samples in values.items() if samples}


def lost_tasks(episodes: Sequence[EpisodeRecord]) -> list[list[EpisodeRecord]]:
    """The episodes of each task that has none but failed ones."""
    finished = {one.task for one in episodes if not one.failed}
    return _by_task(episode for episode in episodes if episode.task not in finished)


def _by_task(episodes: Iterable[EpisodeRecord]) -> list[list[EpisodeRecord]]:
    tasks: dict[str, list[EpisodeRecord]] = {}
    for episode in episodes:
        tasks.setdefault(episode.task, []).append(episode)
    return list(tasks.values())


def estimates(
    tasks: Sequence[Sequence[EpisodeRecord]],
    scores: Mapping[str, Score],
    samples: int = 1,
    lost: Sequence[Sequence[EpisodeRecord]] = (),
) -> dict[str, Estimate]:
    """The mean of each score that a task has; with several samples also pass@k of exact match.

    Args:
        lost: the tasks that have none but failed episodes; they are in no mean, and each mean says so.
    """
    metrics: dict[str, Estimate] = {}
    for name, score in scores.items():
        values = list(values_of(score, tasks).values())
        if values:
            # Where some finished tasks lack the score, such as answers, a lost one may lack it too.
            among = lost if len(values) == len(tasks) else [task for task in lost if score.measure(task[0]) is not None]
            asked = len(values) + len(among)
            metrics[name] = estimate(values, is_share(score, values)).out_of(asked)
            if name == EXACT_MATCH and samples > 1:
                metrics |= {at: one.out_of(asked) for at, one in _pass_at(values, samples).items()}
    return metrics


def is_share(score: Score, values: Collection[Sequence[float]]) -> bool:
    """Whether the score can only be 0 or 1."""
    if score.bounds != "seen":
        return score.bounds == "0 or 1"
    return all(value in (0.0, 1.0) for task in values for value in task)


def _pass_at(values: Sequence[Sequence[float]], samples: int) -> dict[str, Estimate]:
    """pass@k for k = samples, over the tasks none of whose episodes failed."""
    whole = [task for task in values if len(task) >= samples]
    scores = [[pass_at_k(len(task), round(sum(task)), samples)] for task in whole]
    return {PASS_AT.of(str(samples)): estimate(scores, proportion=True)} if scores else {}
