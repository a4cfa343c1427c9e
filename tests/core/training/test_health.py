from __future__ import annotations

from agent_r1_core.metrics.rollouts import spread_metrics
from agent_r1_core.training.health import HealthMonitor
from agent_r1_core.trajectory import Group, Task, Trajectory

TASK = Task("t", "?")


def group(*returns: float) -> Group:
    return Group(TASK, [Trajectory(TASK, sample, reward=value) for sample, value in enumerate(returns)])


def test_spread_is_the_mean_of_sample_deviations_and_groups_of_one_have_none() -> None:
    metrics = spread_metrics([group(0.0, 1.0), group(1.0, 1.0), group(5.0)])
    assert metrics["health/groups_without_spread"] == 0.5
    assert abs(metrics["health/group_std"] - 0.5 * 0.5**0.5) < 1e-12
    assert spread_metrics([group(1.0)]) == {}


def test_a_step_without_any_spread_is_a_loud_warning() -> None:
    warnings, reason = HealthMonitor(early_stop=False).judge(spread_metrics([group(0.0, 0.0)]))
    assert "no group has any spread" in warnings[0]
    assert reason is None


def test_groups_of_one_without_any_difference_between_them_warn_too() -> None:
    monitor = HealthMonitor(early_stop=False)
    assert "same return" in monitor.judge(spread_metrics([group(1.0), group(1.0)]))[0][0]
    assert monitor.judge(spread_metrics([group(1.0), group(0.0)]))[0] == []


def test_the_rounding_of_sums_is_no_spread() -> None:
    metrics = spread_metrics([group(0.1 + 0.2, 0.3)])
    assert metrics["health/groups_without_spread"] == 1.0


def test_early_stop_needs_ten_flat_steps_in_a_row_and_survives_a_resume() -> None:
    lively, flat = {"health/group_std": 0.4}, {"health/group_std": 0.01}
    lines = [lively] * 3 + [flat] * 9
    resumed = HealthMonitor(early_stop=True)
    resumed.replay(lines)
    _, reason = resumed.judge(flat)
    assert reason is not None
    assert "below a tenth" in reason
    interrupted = HealthMonitor(early_stop=True)
    interrupted.replay([*lines, lively])
    assert interrupted.judge(flat)[1] is None


def test_the_gap_between_engine_and_learner_warns_above_one_percent() -> None:
    monitor = HealthMonitor(early_stop=False)
    assert monitor.judge({"prob_gap": 0.004})[0] == []
    assert "disagree" in monitor.judge({"prob_gap": 0.02})[0][0]


def test_episodes_cut_without_a_critic_are_told_once_also_after_a_resume() -> None:
    line, told = {"update/bootstrapped_without_critic": 2.0}, "an outer limit cut episodes"
    monitor, resumed = HealthMonitor(early_stop=False), HealthMonitor(early_stop=False)
    assert [told in " ".join(monitor.judge(line)[0]) for _ in range(2)] == [True, False]
    resumed.replay([line])
    assert resumed.judge(line)[0] == []
