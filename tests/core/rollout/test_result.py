"""Rollouts that follow one another are one result, and its counts."""

from __future__ import annotations

from agent_r1_core.metrics.rollouts import SCALE
from agent_r1_core.rollout import RolloutResult
from agent_r1_core.testing import make_trajectory, random_group
from agent_r1_core.tools.tool_counts import ToolCount, ToolCounts

FIRST = ToolCounts({"search": ToolCount(5, 2, 1, 0.5, {"hits": (9.0, 3)})}, hung=1)
SECOND = ToolCounts({"search": ToolCount(3, 1, 0, 0.25, {"hits": (1.0, 1)}), "": ToolCount(1, 1)}, hung=2)


def test_two_rollouts_are_joined_with_their_times_and_counts() -> None:
    group, dropped = random_group(0, 2), make_trajectory()
    joined = RolloutResult([group], [], 1.5, FIRST) + RolloutResult([], [dropped], 0.5, SECOND)
    assert joined == RolloutResult([group], [dropped], 2.0, FIRST + SECOND)
    total = joined.tools.total
    assert (total.calls, total.errors, total.timeouts, joined.tools.hung) == (9, 4, 1, 3)
    assert joined.tools.by_tool["search"] == ToolCount(8, 3, 1, 0.75, {"hits": (10.0, 4)})
    assert joined.tools.by_tool[""] == ToolCount(1, 1)


def test_counts_since_an_earlier_time_are_differences() -> None:
    since = (FIRST + SECOND) - FIRST
    assert since == ToolCounts(SECOND.by_tool, SECOND.hung)


def test_a_tools_numbers_are_joined_though_one_side_has_none() -> None:
    empty, told = ToolCount(), ToolCount()
    told.add(error=False, seconds=1.0, numbers={"hits": 3.0})
    assert (empty + told).numbers == (told + empty).numbers == {"hits": (3.0 * SCALE, 1)}
    assert (told + told).numbers == {"hits": (6.0 * SCALE, 2)}
    assert (told - told).numbers == {}
