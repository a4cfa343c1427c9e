"""A mean over seeds covers other seeds and other tasks as often as it says."""

from __future__ import annotations

import random

import pytest

from agent_r1_core.evaluation.intervals import estimate
from agent_r1_core.evaluation.seeds import by_task, mean_over_seeds, t_quantile
from agent_r1_core.metrics.estimate import Estimate


def shares(*rights: int) -> list[dict[str, list[float]]]:
    """A seed for each number of tasks that are answered rightly, of 100."""
    return [{f"task-{index}": [float(index < right)] for index in range(100)} for right in rights]


@pytest.mark.parametrize(
    ("freedom", "tabled"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (30, 2.0423)]
)
def test_the_quantiles_of_t_are_those_of_the_tables(freedom: int, tabled: float) -> None:
    assert t_quantile(freedom) == pytest.approx(tabled, abs=5e-5)


def test_one_seed_has_the_interval_of_its_tasks() -> None:
    (seed,) = shares(40)
    assert mean_over_seeds([seed], True) == estimate(list(seed.values()), True)
    with pytest.raises(ValueError, match="at least one seed"):
        mean_over_seeds([], True)
    with pytest.raises(ValueError, match="seed without tasks"):
        mean_over_seeds([seed, {}], True)


def test_seeds_that_agree_tell_no_more_of_other_tasks() -> None:
    one, three = mean_over_seeds(shares(40), True), mean_over_seeds(shares(40, 40, 40), True)
    assert (three.mean, three.low, three.high, three.n) == pytest.approx((one.mean, one.low, one.high, 100))
    assert three.method == "3 seeds (t), 100 tasks (wilson)"


def test_seeds_that_differ_widen_the_interval_and_a_share_stays_one() -> None:
    close, apart = mean_over_seeds(shares(39, 40, 41), True), mean_over_seeds(shares(20, 40, 60), True)
    assert close.mean == apart.mean == pytest.approx(0.4)
    assert apart.low < close.low < 0.4 < close.high < apart.high
    assert apart.high == pytest.approx(0.4 + ((4.3027 * 0.2 / 3**0.5) ** 2 + (one_sided(0.4) ** 2)) ** 0.5, abs=1e-4)
    extreme = mean_over_seeds(shares(0, 0, 90), True)
    assert extreme.low == 0.0
    assert extreme.high <= 1.0


def test_a_score_between_0_and_1_has_such_an_interval() -> None:
    seeds = [{"a": [0.9], "b": [0.7]}, {"a": [0.5], "b": [0.3]}]
    free, bounded = mean_over_seeds(seeds, False), mean_over_seeds(seeds, False, bounded=True)
    assert free.low < 0.0 < 1.0 < free.high
    assert (bounded.low, bounded.high, bounded.method) == (0.0, 1.0, free.method)


def one_sided(share: float) -> float:
    high = estimate([[float(index < share * 100)] for index in range(100)], True).high
    return high - share


def test_seeds_with_other_tasks_and_a_score_without_interval_have_a_mean_too() -> None:
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
