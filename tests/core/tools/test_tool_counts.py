"""Calls of tools are counted by tool, and all together."""

from __future__ import annotations

import pytest

from agent_r1_core.metrics import declared as metric
from agent_r1_core.tools.tool_counts import ToolCount, ToolCounts


def test_calls_errors_seconds_and_a_tools_own_numbers() -> None:
    near, far, unknown = ToolCount(), ToolCount(), ToolCount()
    near.add(error=False, seconds=0.5, numbers={"away": 0.0, "hits": 2.0})
    near.add(error=True, seconds=1.5, numbers={"away": 0.5})
    far.add(error=True, seconds=2.0, numbers={"away": 1.0})
    unknown.add(error=True, seconds=0.0, numbers={})
    counts = ToolCounts({"near": near, "far": far, "": unknown}, hung=2)
    found = counts.metrics()
    together = {metric.TOOL_CALLS: 4.0, metric.TOOL_ERRORS: 3.0, metric.TOOL_TIMEOUTS: 0.0, metric.TIME_TOOLS: 4.0}
    assert {name: found[name] for name in together} == together
    assert found[metric.TOOL_AWAY] == 1.0, "the worst of all tools"
    each = {"calls": 2.0, "errors": 1.0, "seconds": 1.0, "away": 0.25, "hits": 2.0}
    names = [metric.CALLS_OF_TOOL.of("near"), metric.ERRORS_OF_TOOL.of("near"), metric.SECONDS_OF_TOOL.of("near")]
    names += ["tools/near/away", "tools/near/hits"]
    assert [found[name] for name in names] == pytest.approx(list(each.values()))
    assert not any(name.startswith("tools//") for name in found)
    assert (counts + counts - counts) == counts
    assert (counts - counts).total == ToolCount()
