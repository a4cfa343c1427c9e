"""Intervals against published values and against their own promise: to hold the truth 95 times in 100."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from agent_r1_core.evaluation.intervals import bootstrap, estimate, pass_at_k, wilson


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
    found = wilson(successes / n, n)
    assert found == pytest.approx((low, high), abs=5e-5)
    assert 0.0 <= found[0] < found[1] <= 1.0


def test_a_share_has_a_wilson_interval_over_tasks_also_with_several_samples() -> None:
    once = estimate([[1.0], [0.0]] * 50, proportion=True)
    eight_times = estimate([[1.0] * 8, [0.0] * 8] * 50, proportion=True)
    assert (once.method, once.n) == ("wilson", 100)
    assert once == eight_times


def test_other_scores_are_bootstrapped_over_tasks() -> None:
    found = estimate([[0.0, 0.5], [1.0], [0.25]], proportion=False)
    assert (found.mean, found.method) == (pytest.approx(0.5), "bootstrap over tasks")
    assert 0.25 <= found.low < 0.5 < found.high <= 1.0


def test_the_bootstrap_repeats_itself_and_covers_the_truth() -> None:
    rng = random.Random(0)
    draws = [[rng.expovariate(1.0) for _ in range(60)] for _ in range(100)]
    assert bootstrap(draws[0]) == bootstrap(draws[0])
    held = sum(low < 1.0 < high for low, high in (bootstrap(values) for values in draws))
    assert 88 <= held <= 99


def test_one_task_that_is_no_share_has_no_interval_and_no_task_no_mean() -> None:
    found = estimate([[0.3]], proportion=False)
    assert (found.low, found.high, found.method) == (None, None, "none")
    assert str(found) == "0.300 no interval"
    with pytest.raises(ValueError, match="at least one task"):
        estimate([], proportion=True)


def test_pass_at_k_counts_the_draws_that_hold_a_correct_sample() -> None:
    for n, correct, k in [(8, 3, 2), (5, 0, 3), (5, 5, 1), (6, 2, 5)]:
        draws = list(combinations([True] * correct + [False] * (n - correct), k))
        assert pass_at_k(n, correct, k) == pytest.approx(sum(any(draw) for draw in draws) / len(draws))
    with pytest.raises(ValueError, match="draw at least 9"):
        pass_at_k(8, 3, 9)
