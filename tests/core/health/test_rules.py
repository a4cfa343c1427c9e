"""Each kind of rule on series by hand: it fires exactly when it should, at the step that it should."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from agent_r1_core import ConfigError, Metric
from agent_r1_core.health.rule import AtLeast, AtMost, Fall, Growth, Loss, MeanFall, Monitor, Rule, Spike
from agent_r1_core.health.watch import Watched
from agent_r1_core.metrics import declared as metric


def events(rule: Rule, values: Sequence[float]) -> list[tuple[int, str, float]]:
    """Step, event and limit of every alarm that a rule gives on values of the steps 1, 2, 3, ..."""
    watched = Watched(Monitor("x", metric.REWARD_MEAN, rule, "it is {value} ({limit})", "rest"), rule)
    alarms = [watched.judge(step, value) for step, value in enumerate(values, 1)]
    return [(alarm.step, alarm.event, pytest.approx(alarm.threshold)) for alarm in alarms if alarm is not None]


def test_a_bound_is_held_for_steps_in_a_row_and_an_alarm_ends_after_five_calm_ones_or_as_many_as_began_it() -> None:
    assert events(AtLeast(threshold=0.5, steps=3), [0.5, 0.6, 0.4, 0.5, 0.5, 0.5, 0.9]) == [(6, "begins", 0.5)]
    assert events(AtMost(threshold=0.5, steps=3), [0.5, 0.4, 0.6, 0.5, 0.5, 0.5, 0.1]) == [(6, "begins", 0.5)]
    assert events(AtMost(threshold=0.0, steps=1), [1.0, 0.0, 0.0]) == [(2, "begins", 0.0)]
    short, long = AtLeast(threshold=1, steps=1), AtLeast(threshold=1, steps=7)
    assert events(short, [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]) == [(1, "begins", 1), (11, "ends", 1)]
    assert events(short, [1, 0, 0, 0, 0, 0, 1]) == [(1, "begins", 1), (6, "ends", 1), (7, "begins", 1)]
    assert events(long, [1] * 7 + [0] * 6) == [(7, "begins", 1)]
    assert events(long, [1] * 7 + [0] * 7) == [(7, "begins", 1), (14, "ends", 1)]


def test_falls_and_growth_are_measured_against_the_first_values() -> None:
    """A fall and growth against their mean; a falling mean against the first such mean."""
    fall = Fall(threshold=0.1, steps=2, window=3)
    assert events(fall, [0.2, 0.4, 0.6, 0.04, 0.041, 0.04, 0.04]) == [(7, "begins", 0.04)]
    assert events(fall, [0.6, 0.01, 0.01, 0.01, 0.01]) == [(5, "begins", 0.062 / 3)], "the first values are not judged"
    assert events(fall, [0.0] * 9) == [], "what never was has not fallen"
    mean = MeanFall(threshold=0.5, steps=1, window=2)
    assert events(mean, [0.8, 0.4, 0.3, 0.3, 0.2]) == [(4, "begins", 0.3)]
    assert events(mean, [0.8, 0.4, 0.0, 0.8, 0.2]) == [(3, "begins", 0.3)], "single low values count by their mean"
    assert events(MeanFall(threshold=0.5, steps=2, window=2), [0.8, 0.4, 0.0, 0.4, 0.9]) == [(4, "begins", 0.3)]
    assert events(mean, [0.8, 0.4, 0.2, *[0.9] * 5]) == [(3, "begins", 0.3), (8, "ends", 0.3)]
    assert events(mean, [0.0] * 9) == []
    growth = Growth(threshold=3, steps=2, window=3)
    assert events(growth, [1, 2, 3, 5.9, 6, 5.9, 6, 6]) == [(8, "begins", 6)]
    assert events(growth, [0, 0, 0, 9, 9]) == []


def test_a_fall_that_another_metric_gains_by_is_none() -> None:
    rule = MeanFall(threshold=0.5, steps=1, window=2)
    monitor = Monitor("x", metric.GROUP_STD, rule, "it is {value} ({limit})", "rest", gain=metric.REWARD_MEAN)
    spread = [0.8, 0.4, 0.2, 0.2, 0.1]

    def begins(*gains: float | None) -> list[int]:
        watched = Watched(monitor, rule)
        steps = enumerate(zip(spread, gains, strict=True), 1)
        return [alarm.step for step, both in steps if (alarm := watched.judge(step, *both)) is not None]

    assert begins(0.1, 0.3, 0.3, 0.3, 0.3) == []
    assert begins(0.1, 0.3, 0.3, 0.1, 0.1) == [4], "the mean of two is no higher than the first"
    assert begins(None, None, None, None, None) == [3]


def test_a_spike_is_measured_against_the_running_median_of_calm_values() -> None:
    rule = Spike(threshold=5, steps=2, window=3)
    assert events(rule, [9, 1, 2, 10, 10]) == [(5, "begins", 10)]
    assert events(rule, [9, 1, 2, 4, 4, 3, 19, 20, 20]) == [(9, "begins", 20)], "the median moves with the run"
    assert events(rule, [1, 1, 1, *[6] * 20]) == [(5, "begins", 5)], "a level that stays is no median"
    assert events(rule, [1, 1, 6, 6]) == [], "there is no median yet"
    assert events(rule, [0, 0, 0, 1, 1]) == []


def test_a_loss_is_measured_against_the_best_running_mean_and_its_noise() -> None:
    rule = Loss(threshold=0.25, steps=2, window=2)
    assert events(rule, [0.2, 0.2, 0.8, 0.8, 0.7, 0.6, 0.61, 0.6, 0.6]) == [(9, "begins", 0.6)]
    assert events(rule, [-1, -1, 0, 0, -0.2, -0.25, -0.25]) == [(7, "begins", -0.25)], "measured by where it began"
    assert events(rule, [0, 0.3, 0, 0.1, 0, 0, 0]) == [], "within three standard deviations of the best values"
    assert events(rule, [0.0] * 9) == []
    once = Loss(threshold=0.1, steps=1, window=3)
    calm, noisy = [0.5, 0.5, 0.5], [0.44, 0.5, 0.56]  # standard deviation 0.06: the limit is 0.5 - 0.18
    assert events(once, [*calm, 0.44]) == [(4, "begins", 0.45)]
    assert events(once, [*noisy, 0.33]) == []
    assert events(once, [*noisy, 0.31]) == [(4, "begins", 0.32)]


def test_a_share_divides_by_a_sum_and_what_nobody_declares_is_an_error_and_no_number_passed_over() -> None:
    parts = (metric.ROLLOUT_EPISODES, metric.ROLLOUT_FAILED)
    monitor = Monitor("failed", metric.ROLLOUT_FAILED, AtLeast(threshold=0.5, steps=1), "", "", per=parts)
    assert monitor.value({"rollout/failed": 2.0, "rollout/episodes": 6.0}) == 0.25
    assert monitor.value({"rollout/failed": 0.0, "rollout/episodes": 0.0}) is None
    assert monitor.value({"rollout/episodes": 6.0}) is None
    assert monitor.value({"rollout/failed": 2.0}) == 1.0
    gained = Monitor("x", metric.REWARD_MEAN, AtLeast(threshold=0.5, steps=1), "", "", gain=metric.REWARD_MEAN)
    for take in (gained.gained, gained.value):
        assert [take({"reward/mean": number}) for number in (math.nan, math.inf, 0.0)] == [None, None, 0.0]
        assert take({}) is None
    with pytest.raises(ConfigError, match="no metric is called 'health/group_sdt'; did you mean 'health/group_std'"):
        Monitor("x", Metric("health/group_sdt", ""), AtMost(threshold=0, steps=1), "", "")
    for more in ({"per": (Metric("a", ""),)}, {"gain": Metric("a", "")}):
        with pytest.raises(ConfigError, match="no metric is called 'a'"):
            Monitor("x", metric.REWARD_MEAN, AtMost(threshold=0, steps=1), "", "", **more)
