"""Several evaluation sets are one result: unweighted means with an interval, and the sets' own results beside it."""

from __future__ import annotations

import math

import pytest

from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.intervals import mean_over_sets, wilson
from agent_r1_core.evaluation.report import EvaluationResult, combine, report
from agent_r1_core.metrics.estimate import Estimate
from agent_r1_core.runs.failures import Failures
from agent_r1_core.testing.trajectories import make_task, make_trajectory


def scored(right: int, n: int, **facts: object) -> EvaluationResult:
    """A set of `n` tasks, of which the first `right` are answered rightly."""
    episodes = []
    for index in range(n):
        task = make_task(f"{n}-{index}", "Where?", ("Rome",))
        episodes.append(EpisodeRecord.of(make_trajectory(task=task, answer="Rome" if index < right else None)))
    return report(episodes, sampling={"greedy": True}, **facts)  # type: ignore[arg-type]


def test_every_set_weighs_the_same_however_many_tasks_it_has() -> None:
    result = combine({"large": scored(90, 100), "small": scored(1, 10)})
    exact = result.metrics["exact_match"]
    assert (exact.mean, exact.n, result.n, exact.method) == (0.5, 110, 110, "unweighted mean of 2 sets")
    assert result.statuses == {"terminated": 110}
    metrics = result.to_metrics()
    assert [metrics[f"eval/{of}exact_match"] for of in ("", "large/", "small/")] == [0.5, 0.9, 0.1]
    assert metrics["eval/small/exact_match_low"] == wilson(0.1, 10)[0]
    labels = [row[0] for row in result.rows()]
    assert {"exact_match", "large/exact_match", "small/exact_match"} <= set(labels)
    assert "large 0.900" in result.sentence()


def test_the_interval_of_the_mean_recovers_the_variance_of_each_set() -> None:
    one, other = scored(90, 100).metrics["exact_match"], scored(50, 100).metrics["exact_match"]
    mean = mean_over_sets([one, other])
    assert mean.low == pytest.approx(0.7 - math.hypot(0.9 - one.low, 0.5 - other.low) / 2)
    assert mean.high == pytest.approx(0.7 + math.hypot(one.high - 0.9, other.high - 0.5) / 2)
    assert mean.high - mean.low < max(one.high - one.low, other.high - other.low)
    assert mean_over_sets([one]) == one
    unsure = mean_over_sets([one, Estimate(0.5, None, None, "none", 1)])
    assert unsure == Estimate(pytest.approx(0.7), None, None, "unweighted mean of 2 sets", 101)


def test_failures_of_several_sets_are_not_counted_too_few() -> None:
    """Of each set only the commonest reason is known: the second hides five prompts that do not fit."""
    one = Failures.among(["token 9 is too long"] * 8 + ["gone"], of=20)
    other = Failures.among(["gone"] * 6 + ["token 7 is too long"] * 5, of=20)
    both = Failures.together([(one, 20), (other, 20), (None, 10)])
    assert both.sentence() == "failed and not scored: 20 of 50 episodes (at least 8 of them: token 9 is too long)"
    known = Failures.together([(one, 20), (one, 20), (Failures.among(["lost"], of=5), 5)])
    assert known.sentence() == "failed and not scored: 19 of 45 episodes (16 of them: token 9 is too long)"
