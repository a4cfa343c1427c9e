"""What a rollout reports, by declared names."""

from __future__ import annotations

from agent_r1_core.metrics import Catalogue
from agent_r1_core.metrics.rollouts import reward_metrics, tool_metrics
from agent_r1_core.rollout import RolloutResult, ToolCount, ToolCounts
from agent_r1_core.testing import make_task, make_trajectory
from agent_r1_core.training.health import HealthMonitor
from agent_r1_core.trajectory import Group


def test_rewards_are_means_over_episodes_and_process_rewards_are_summed_over_turns() -> None:
    paid = make_trajectory(reward=1.0, rewards={"exact_match": 1.0}, turn_rewards=[0.5, 0.25], answer="2")
    for turn, score in zip(paid.turns, (0.5, 0.25), strict=True):
        turn.rewards = {"valid_tool_call": score}
    idle = make_trajectory(reward=0.0, rewards={"exact_match": 0.0})
    metrics = reward_metrics([paid, idle])
    assert metrics["reward/mean"] == 1.75 / 2
    assert metrics["reward/exact_match"] == 0.5
    assert metrics["reward/valid_tool_call"] == 0.75 / 2


def test_no_episode_has_no_metrics() -> None:
    assert reward_metrics([]) == {}


def test_each_tool_has_metrics_of_its_own() -> None:
    counts = ToolCounts({"search": ToolCount(), "": ToolCount()})
    counts.by_tool["search"].add(error=False, seconds=0.5, numbers={"hits": 3.0})
    counts.by_tool["search"].add(error=True, seconds=1.5, numbers={})
    counts.by_tool[""].add(error=True, seconds=0.0, numbers={})
    metrics = tool_metrics(counts + counts - counts)
    assert (metrics["tools/calls"], metrics["tools/errors"], metrics["time/tools"]) == (3.0, 2.0, 2.0)
    of_search = {name: metrics[f"tools/search/{name}"] for name in ("calls", "errors", "seconds", "hits")}
    assert of_search == {"calls": 2.0, "errors": 1.0, "seconds": 1.0, "hits": 3.0}
    assert Catalogue().undeclared(metrics) == ["tools/search/hits"], "the tool itself declares what it records"


def test_two_rollouts_of_a_step_count_as_one() -> None:
    first = RolloutResult([Group(make_task("a"), [make_trajectory(reward=1.0)])], seconds=1.0)
    second = RolloutResult([Group(make_task("b"), [make_trajectory(reward=0.0)])], [make_trajectory()], seconds=2.0)
    metrics = (first + second).metrics
    assert (metrics["reward/mean"], metrics["rollout/episodes"], metrics["rollout/failed"]) == (0.5, 2.0, 1.0)
    assert metrics["time/rollout"] == 3.0
    assert Catalogue().undeclared(metrics) == []


def test_groups_that_mix_versions_of_the_policy_are_counted_and_told() -> None:
    pure, mixed = ([make_trajectory(sample=sample) for sample in range(2)] for _ in range(2))
    for trajectory in (*pure, *mixed):
        for turn in trajectory.turns:
            turn.versions = ((3, turn.tokens),)
    mixed[1].turns[0].versions = ((3, 1), (4, mixed[1].turns[0].tokens - 1))
    metrics = RolloutResult([Group(make_task("a"), pure), Group(make_task("b"), mixed)]).metrics
    assert metrics["rollout/mixed_groups"] == 1.0
    warnings, _ = HealthMonitor(early_stop=False).judge(metrics)
    assert any("1 groups mix episodes of several versions" in warning for warning in warnings)
