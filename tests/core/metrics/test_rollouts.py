"""What a rollout reports, by names that are declared once, and how rollouts that follow one another are one."""

from __future__ import annotations

import sys

import pytest

from agent_r1_core import CallRecord, ConfigError, Group, Metric
from agent_r1_core.contracts.component import Component
from agent_r1_core.health.watch import HealthConfig, Watch
from agent_r1_core.metrics.catalogue import Catalogue
from agent_r1_core.metrics.rollouts import SCALE, episode_metrics, reward_metrics, spread_metrics
from agent_r1_core.metrics.tally import tallies
from agent_r1_core.rollout import RolloutResult
from agent_r1_core.testing import make_task, make_trajectory, random_group
from agent_r1_core.tools.tool_counts import ToolCount, ToolCounts


def test_rewards_are_means_over_episodes_and_spread_one_of_sample_deviations() -> None:
    """Process rewards are summed over turns; groups of one have no spread."""
    paid = make_trajectory(reward=1.0, rewards={"exact_match": 1.0}, turn_rewards=[0.5, 0.25], answer="2")
    for turn, score in zip(paid.turns, (0.5, 0.25), strict=True):
        turn.rewards = {"valid_tool_call": score}
    idle = make_trajectory(reward=0.0, rewards={"exact_match": 0.0})
    metrics = reward_metrics(tallies([paid, idle]))
    assert metrics["reward/mean"] == 1.75 / 2
    assert metrics["reward/exact_match"] == 0.5
    assert metrics["reward/valid_tool_call"] == 0.75 / 2
    metrics = spread_metrics([[0.0, 1.0], [1.0, 1.0], [5.0]])
    assert metrics["health/groups_without_spread"] == 0.5
    assert abs(metrics["health/group_std"] - 0.5 * 0.5**0.5) < 1e-12
    assert spread_metrics([[1.0]]) == reward_metrics(tallies([])) == {}
    assert spread_metrics([[0.1 + 0.2, 0.3]])["health/groups_without_spread"] == 1.0, "rounding is no spread"


def test_repetition_counts_runs_of_eight_tokens_and_calls_that_were_there_before() -> None:
    """Twelve tokens have five runs of eight; with a period of three the fourth and fifth repeat the first and second.
    An action of seven has none, and what stood in another action is no repetition."""
    wheel, short, plain = [1, 2, 3] * 4, [1] * 7, list(range(12))
    assert episode_metrics(tallies([make_trajectory([([9], wheel), ([9], short)])]))["episode/repetition"] == 2 / 5
    assert episode_metrics(tallies([make_trajectory([([9], plain), ([9], plain)])]))["episode/repetition"] == 0.0
    assert episode_metrics(tallies([make_trajectory([([9], short)])]))["episode/repetition"] == 0.0
    first, second = make_trajectory(), make_trajectory(sample=1)
    call = CallRecord("search", {"query": "a", "k": 1})
    first.turns[0].calls = [call, CallRecord("search", {"query": "b", "k": 1}), CallRecord("read", call.arguments)]
    first.turns[1].calls = [CallRecord("search", {"k": 1, "query": "a"})]
    second.turns[0].calls = [call]
    assert episode_metrics(tallies([first, second]))["episode/repeated_calls"] == 1 / 5
    assert "episode/repeated_calls" not in episode_metrics(tallies([make_trajectory()]))


def test_groups_that_mix_versions_of_the_policy_are_counted_and_told() -> None:
    pure, mixed = ([make_trajectory(sample=sample) for sample in range(2)] for _ in range(2))
    for trajectory in (*pure, *mixed):
        for turn in trajectory.turns:
            turn.versions = ((3, turn.tokens),)
    mixed[1].turns[0].versions = ((3, 1), (4, mixed[1].turns[0].tokens - 1))
    metrics = RolloutResult([Group(make_task("a"), pure), Group(make_task("b"), mixed)]).metrics
    assert metrics["rollout/mixed_groups"] == 1.0
    notes = [alarm.note() for alarm in Watch(HealthConfig()).judge(1, metrics)]
    assert any("1 groups mix episodes of several versions" in note for note in notes)


def test_two_rollouts_are_joined_with_their_times_and_counts_also_where_one_side_has_none() -> None:
    first = ToolCounts({"search": ToolCount(5, 2, 1, 0.5, {"hits": (9.0, 3)})}, hung=1)
    second = ToolCounts({"search": ToolCount(3, 1, 0, 0.25, {"hits": (1.0, 1)}), "": ToolCount(1, 1)}, hung=2)
    group, dropped = random_group(0, 2), make_trajectory()
    joined = RolloutResult([group], [], 1.5, first) + RolloutResult([], [dropped], 0.5, second)
    assert joined == RolloutResult([group], [dropped], 2.0, first + second)
    total = joined.tools.total
    assert (total.calls, total.errors, total.timeouts, joined.tools.hung) == (9, 4, 1, 3)
    assert joined.tools.by_tool["search"] == ToolCount(8, 3, 1, 0.75, {"hits": (10.0, 4)})
    assert joined.tools.by_tool[""] == ToolCount(1, 1)
    assert joined.tools - first == second, "counts since an earlier time are differences"
    empty, told, large = ToolCount(), ToolCount(), ToolCounts({"search": ToolCount()})
    told.add(error=False, seconds=1.0, numbers={"hits": 3.0})
    assert (empty + told).numbers == (told + empty).numbers == {"hits": (3.0 * SCALE, 1)}
    assert (told + told).numbers == {"hits": (6.0 * SCALE, 2)}
    assert (told - told).numbers == {}
    largest = sys.float_info.max
    for value in (largest, largest, 0.0):
        large.by_tool["search"].add(error=False, seconds=0.0, numbers={"hits": value})
    assert (large + large).metrics()["tools/search/hits"] == pytest.approx(largest / 3 * 2)


class Counting(Component):
    """Declares a metric of its own."""

    metrics = (Metric("hits", "calls that found something", unit="share", better="higher"),)


def test_a_name_is_of_a_family_or_a_components_own_or_an_error_with_the_nearest_name() -> None:
    meanings = {
        "reward/brief": "one reward",
        "eval/wiki/reward/mean": "return",
        "eval/pass@8": "k samples",
        "tools/wiki_search/seconds": "this tool",
        "env/score": "number",
    }
    for name, of in meanings.items():
        assert Catalogue()[name] == name
        assert of in Catalogue()[name].meaning
    with pytest.raises(ConfigError, match=r"'health/group_sd'; did you mean 'health/group_std'"):
        Catalogue()["health/group_sd"]
    assert Catalogue().undeclared(["reward/mean", "reward/a/b", "nonsense"]) == ["reward/a/b", "nonsense"]
    owners = (("algorithm", "mine", "update"), ("env", "world", "env"), ("tool", "search", "tools/search"))
    catalogue = Catalogue.with_components([(kind, name, Counting) for kind, name, _ in owners])
    for *_, prefix in owners:
        own = catalogue[f"{prefix}/hits"]
        assert (own.meaning, own.better) == ("calls that found something", "higher")
    assert "tools/other/hits" not in catalogue
    assert "update/hits" not in Catalogue()
