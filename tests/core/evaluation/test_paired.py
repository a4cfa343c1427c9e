"""The interval of a paired difference covers, near the edge too, and its p-value is exact where it can be."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from agent_r1_core.evaluation.paired import paired_difference, paired_mean, sign_flip_p

N = 20


def questions(won: int, lost: int, tied: int) -> list[float]:
    return [1.0] * won + [-1.0] * lost + [0.0] * tied


def test_the_interval_of_01_scores_covers_with_20_questions_whatever_the_truth_is() -> None:
    """Exactly, over all 231 outcomes; coverage jumps at the limits, so the worst truth, .9326, stands beside one."""
    found = {}
    for won in range(N + 1):
        for lost in range(N + 1 - won):
            one, p = paired_difference([questions(won, lost, N - won - lost)], [[0.0], [0.0]], bounded=True)
            found[won, lost] = one.low, one.high
            assert (p >= 0.05) <= (one.low <= 0.0 <= one.high), "p and interval disagree"
    won, lost = np.array(list(found)).T
    low, high = np.array(list(found.values())).T
    ways = np.array([math.comb(N, w) * math.comb(N - w, lose) for w, lose in found], dtype=float)
    for truth in {min(1.0, max(-1.0, limit + side)) for limit in {*low, *high} for side in (-1e-9, 0.0, 1e-9)}:
        decided = np.linspace(abs(truth), 1, 21)[:, None]
        chances = (
            ways * ((decided + truth) / 2) ** won * ((decided - truth) / 2) ** lost * (1 - decided) ** (N - won - lost)
        )
        covered = chances[:, (low <= truth) & (truth <= high)].sum(axis=1)
        assert covered.min() >= 0.932, f"the truth is {truth}, decided are {decided[covered.argmin()]}"


DRAWS: dict[str, tuple[Callable[[random.Random], float], float, bool]] = {
    "normal": (lambda rng: rng.gauss(0.5, 1), 0.5, False),
    "skewed": (lambda rng: rng.expovariate(1), 1.0, False),
    "often-equal": (lambda rng: rng.choice((-0.4, 0.0, 0.0, 0.0, 0.5, 1.0)), 1.1 / 6, True),
    "rare": (lambda rng: 0.6 * (rng.random() < 0.05), 0.03, True),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_interval_of_other_scores_covers_with_20_questions(name: str) -> None:
    draw, truth, bounded = DRAWS[name]
    rng, covered, experiments = random.Random(0), 0, 1000
    for _ in range(experiments):
        values = [draw(rng) for _ in range(N)]
        one = paired_mean(values, 1.0 if bounded else max(map(abs, values)), bounded)
        covered += one.low <= truth <= one.high
    assert covered / experiments >= 0.94


def test_equal_scores_without_bounds_have_no_interval_and_leave_other_sets_theirs() -> None:
    unbounded, unbounded_p = paired_difference([[0.0] * N], [[3.0], [3.0]], bounded=False)
    assert (unbounded.low, unbounded.high, unbounded_p) == (None, None, 1.0)
    same, apart = [0.0] * 4, [2.0, 3.0, 1.0]
    found, p = paired_difference([same, apart], [[0.0], [1.0]], bounded=False)
    one, other = paired_mean(same, 3.0, False), paired_mean(apart, 3.0, False)
    assert (found.mean, p) == (1.0, 0.25)
    assert found.low == pytest.approx(1 - math.hypot(one.low, 2 - other.low) / 2)
    assert found.high == pytest.approx(1 + math.hypot(one.high, other.high - 2) / 2)
    assert other.high > 3.0, "a mean without bounds is cut at the largest difference seen"


def test_p_is_that_of_all_signs_sampled_where_they_are_too_many_and_anew_with_what_seeds_add() -> None:
    parts = [0.5, -0.1, 0.3, 0.0, 0.2, -0.4, 0.25]
    signs = list(itertools.product((1, -1), repeat=len(parts)))
    sums = [abs(math.fsum(s * part for s, part in zip(row, parts, strict=True))) for row in signs]
    expected = sum(one >= abs(math.fsum(parts)) - 1e-12 for one in sums) / len(sums)
    assert sign_flip_p(parts, np.random.default_rng(0)) == pytest.approx(expected)
    twice = [*parts, *parts, *parts]
    sampled = sign_flip_p(twice, np.random.default_rng(0))
    normal = math.erfc(sum(twice) / math.sqrt(2 * sum(part**2 for part in twice)))
    assert sampled == pytest.approx(normal, abs=0.02)
    assert sampled == sign_flip_p(twice, np.random.default_rng(0)), "the same question, another answer"
    # Of twelve questions under two seeds that are .4 apart: random signs, and .2 t(1).
    parts, seeds = [0.5] * 12, [[0.5 - 0.2, 0.5 + 0.2], [0.0]]
    _, p = paired_difference([parts], seeds, bounded=True)
    draws = np.random.default_rng(1)
    sums = draws.choice((-0.5, 0.5), (100_000, 12)).mean(1) + 0.2 * draws.standard_t(1, 100_000)
    assert p == pytest.approx(float((np.abs(sums) >= 0.5).mean()), abs=0.02)


def test_sets_weigh_the_same_and_seeds_widen() -> None:
    many, few = questions(20, 0, 20), questions(0, 0, 10)
    both, both_p = paired_difference([many, few], [[0.75], [0.5]], bounded=True)
    assert both.mean == pytest.approx(0.25)
    one, other = paired_mean(many, 1.0, True), paired_mean(few, 1.0, True)
    assert both.low == pytest.approx(0.25 - math.hypot(0.5 - one.low, -other.low) / 2)
    apart, apart_p = paired_difference([many, few], [[0.55, 0.95], [0.5]], bounded=True)
    # t(1) is 12.7, and the standard error over the two seeds .2.
    assert (apart.low, apart.high) == (-1.0, 1.0)
    assert apart_p > 0.3 > 0.001 > both_p
