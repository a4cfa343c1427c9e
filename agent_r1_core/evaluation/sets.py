"""Combines several evaluation sets into one result: each score's mean over the sets, and the results of the sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from agent_r1_core.evaluation.intervals import Estimate, mean_over_sets
from agent_r1_core.evaluation.report import EvaluationResult
from agent_r1_core.runs.failures import Failures


def combine(sets: Mapping[str, EvaluationResult], choosing_set: str | None = None) -> EvaluationResult:
    """Combine the results of several sets.

    Every set has the same weight, however many tasks it has. A score that only some sets have is the mean over those.

    Args:
        sets: The results by set.
        choosing_set: The set that chooses checkpoints; it is in no mean.

    Raises:
        ValueError: there is no set to report.
    """
    reported = {name: result for name, result in sets.items() if name != choosing_set}
    if not reported:
        raise ValueError("there is no evaluation set to report; name one besides the set that chooses checkpoints")
    metrics: dict[str, Estimate] = {}
    for metric in dict.fromkeys(metric for result in reported.values() for metric in result.metrics):
        estimates = [result.metrics[metric] for result in reported.values() if metric in result.metrics]
        metrics[metric] = mean_over_sets(estimates)
    first = next(iter(reported.values()))
    statuses: Counter[str] = Counter()
    for result in reported.values():
        statuses.update(result.statuses)
    return EvaluationResult(
        n=sum(result.n for result in reported.values()),
        samples=first.samples,
        metrics=metrics,
        scorers={name: text for result in reported.values() for name, text in result.scorers.items()},
        sampling=first.sampling,
        declared=first.declared,
        statuses=dict(statuses),
        asked=sum(result.asked or result.n for result in reported.values()),
        failures=Failures.together((one.failures, sum(one.statuses.values())) for one in reported.values()),
        sets=dict(sets),
        choosing_set=choosing_set,
    )
