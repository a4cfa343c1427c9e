"""Uncertainty: the interval of a score over tasks, over the seeds of a policy, and over several evaluation sets."""

from __future__ import annotations

import math
import random
from itertools import combinations

import pytest

from agent_r1_core.evaluation.episode_record import EpisodeRecord
from agent_r1_core.evaluation.intervals import bootstrap, estimate, mean_over_sets, pass_at_k, wilson
from agent_r1_core.evaluation.report import EvaluationResult, combine, report
from agent_r1_core.evaluation.seeds import by_task, mean_over_seeds, t_quantile
from agent_r1_core.metrics.estimate import Estimate
from agent_r1_core.runs.failures import Failures
from agent_r1_core.testing.trajectories import make_task, make_trajectory


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        # Newcombe 1998 (Statistics in Medicine 17:857), table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (20, 20, 0.8389, 1.0),  # by symmetry
    ],
)
def test_wilson_gives_the_published_limits(successes: int, n: int, low: float, high: float) -> None:
    assert wilson(successes / n, n) == pytest.approx((low, high), abs=5e-5)
    assert (wilson(0.0, n)[0], wilson(1.0, n)[1]) == (0.0, 1.0), "exactly"


def test_a_share_has_a_wilson_interval_over_tasks_and_other_scores_a_bootstrap() -> None:
    once = estimate([[1.0], [0.0]] * 50, proportion=True)
    eight_times = estimate([[1.0] * 8, [0.0] * 8] * 50, proportion=True)
    assert (once.method, once.n) == ("wilson", 100)
    assert once == eight_times
    found = estimate([[0.0, 0.5], [1.0], [0.25]], proportion=False)
    assert (found.mean, found.method) == (pytest.approx(0.5), "bootstrap over tasks")
    assert 0.25 <= found.low < 0.5 < found.high <= 1.0
    single = estimate([[0.3]], proportion=False)
    assert (single.low, single.high, single.method) == (None, None, "none")
    assert str(single) == "0.300 no interval"
    with pytest.raises(ValueError, match="at least one task"):
        estimate([], proportion=True)


def test_the_bootstrap_repeats_itself_and_covers_the_truth() -> None:
    rng = random.Random(0)
    draws = [[rng.expovariate(1.0) for _ in range(60)] for _ in range(100)]
    assert bootstrap(draws[0]) == bootstrap(draws[0])
    held = sum(low < 1.0 < high for low, high in (bootstrap(values) for values in draws))
    assert 88 <= held <= 99


def test_pass_at_k_counts_the_draws_that_hold_a_correct_sample() -> None:
    for n, correct, k in [(8, 3, 2), (5, 0, 3), (5, 5, 1), (6, 2, 5)]:
        draws = list(combinations([True] * correct + [False] * (n - correct), k))
        assert pass_at_k(n, correct, k) == pytest.approx(sum(any(draw) for draw in draws) / len(draws))
    with pytest.raises(ValueError, match="draw at least 9"):
        pass_at_k(8, 3, 9)


def shares(*rights: int) -> list[dict[str, list[float]]]:
    """A seed for each number of tasks that are answered rightly, of 100."""
    return [{f"task-{index}": [float(index < right)] for index in range(100)} for right in rights]


def test_the_quantiles_of_t_are_those_of_the_tables() -> None:
    found = {freedom: t_quantile(freedom) for freedom in (1, 2, 3, 4, 9, 30)}
    assert found == pytest.approx({1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 9: 2.2622, 30: 2.0423}, abs=5e-5)


def test_one_seed_and_seeds_that_agree_have_the_interval_of_their_tasks() -> None:
    (seed,) = shares(40)
    one, three = mean_over_seeds([seed], True), mean_over_seeds(shares(40, 40, 40), True)
    assert one == estimate(list(seed.values()), True)
    assert (three.mean, three.low, three.high, three.n) == pytest.approx((one.mean, one.low, one.high, 100))
    assert three.method == "3 seeds (t), 100 tasks (wilson)"
    for seeds, told in (([], "at least one seed"), ([seed, {}], "seed without tasks")):
        with pytest.raises(ValueError, match=told):
            mean_over_seeds(seeds, True)


def test_seeds_that_differ_widen_the_interval_a_share_stays_one_and_other_tasks_have_a_mean_too() -> None:
    close, apart = mean_over_seeds(shares(39, 40, 41), True), mean_over_seeds(shares(20, 40, 60), True)
    assert close.mean == apart.mean == pytest.approx(0.4)
    assert apart.low < close.low < 0.4 < close.high < apart.high
    of_tasks = wilson(0.4, 100)[1] - 0.4
    assert apart.high == pytest.approx(0.4 + math.hypot(4.3027 * 0.2 / 3**0.5, of_tasks), abs=1e-4)
    extreme = mean_over_seeds(shares(0, 0, 90), True)
    assert extreme.low == 0.0
    assert extreme.high <= 1.0
    seeds = [{"a": [0.9], "b": [0.7]}, {"a": [0.5], "b": [0.3]}]
    free, bounded = mean_over_seeds(seeds, False), mean_over_seeds(seeds, False, bounded=True)
    assert free.low < 0.0 < 1.0 < free.high
    assert (bounded.low, bounded.high, bounded.method) == (0.0, 1.0, free.method)
    nested = mean_over_seeds([{"a": [1.0, 0.0], "b": [1.0]}, {"b": [0.0], "c": [1.0]}], False)
    assert (nested.mean, nested.n) == (pytest.approx((0.75 + 0.5) / 2), 3)
    assert nested.method == "2 seeds (t), 3 tasks (bootstrap)"
    assert by_task([{"a": [1.0, 0.0], "b": [1.0]}, {"b": [0.0]}]) == {"a": [0.5], "b": [1.0, 0.0]}
    alone = mean_over_seeds([{"a": [0.2]}, {"a": [0.4]}], False)
    assert alone == Estimate(pytest.approx(0.3), None, None, "2 seeds (t), 1 tasks (none)", 1)


@pytest.mark.parametrize("spread", [0.0, 0.08, 0.2])
def test_of_many_experiments_with_three_seeds_95_percent_cover_the_truth(spread: float) -> None:
    """Tasks differ in difficulty, seeds in skill, and answers are also luck; the truth is the mean over all of them."""
    rng, covered, experiments = random.Random(7), 0, 300
    for _ in range(experiments):
        difficulty = {f"task-{index}": rng.uniform(-0.3, 0.3) for index in range(60)}
        seeds = []
        for _ in range(3):
            skill = rng.uniform(-spread, spread)
            seeds.append({task: [float(rng.random() < 0.5 + hard + skill)] for task, hard in difficulty.items()})
        found = mean_over_seeds(seeds, True)
        covered += found.low <= 0.5 <= found.high
    assert covered / experiments >= 0.94


def scored(right: int, n: int) -> EvaluationResult:
    """A set of `n` tasks, of which the first `right` are answered rightly."""
    tasks = [make_task(f"{n}-{index}", "Where?", ("Rome",)) for index in range(n)]
    made = [make_trajectory(task=task, answer="Rome" if index < right else None) for index, task in enumerate(tasks)]
    return report([EpisodeRecord.of(one) for one in made], sampling={"greedy": True})


def test_every_set_weighs_the_same_and_the_interval_of_the_mean_recovers_the_variance_of_each() -> None:
    result = combine({"large": scored(90, 100), "small": scored(1, 10)})
    exact = result.metrics["exact_match"]
    assert (exact.mean, exact.n, result.n, exact.method) == (0.5, 110, 110, "unweighted mean of 2 sets")
    assert result.statuses == {"terminated": 110}
    metrics = result.to_metrics()
    assert [metrics[f"eval/{of}exact_match"] for of in ("", "large/", "small/")] == [0.5, 0.9, 0.1]
    assert metrics["eval/small/exact_match_low"] == wilson(0.1, 10)[0]
    assert {"exact_match", "large/exact_match", "small/exact_match"} <= {row[0] for row in result.rows()}
    assert "large 0.900" in result.sentence()
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
