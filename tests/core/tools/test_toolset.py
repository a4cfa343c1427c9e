"""A toolset's members take its place: for the model, calls, time-outs, what is silenced. Calls are counted by tool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tool_calls import run

from agent_r1_core import ConfigError, SchemaTool, Tool, ToolContext, ToolResources, Toolset
from agent_r1_core.evaluation.baselines import SilentTool
from agent_r1_core.metrics import declared as metric
from agent_r1_core.metrics.catalogue import Catalogue
from agent_r1_core.tools.tool_counts import ToolCount, ToolCounts
from agent_r1_core.tools.tool_runner import ToolRunner

NUMBERS = {
    "type": "object",
    "title": "addArguments",
    "properties": {"a": {"type": "integer", "title": "A"}, "_model-b": {"type": "integer"}, "json": {"default": 0}},
    "required": ["a", "_model-b"],
}


class Sum(SchemaTool):
    def perform(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        return arguments


class Server(Toolset):
    """Brings tools."""

    names: Sequence[str] = ()
    opened = False

    def open(self, resources: ToolResources) -> None:
        self.opened = True

    def close(self) -> None:
        self.opened = False

    def members(self) -> list[Tool]:
        assert self.opened
        return [Sum(name, "Adds.", NUMBERS) for name in self.names]


def server(*names: str) -> Server:
    made = Server()
    made.names = names
    return made


def played(runner: ToolRunner, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    return [result.text for result in run(runner, *calls)]


def test_the_members_of_an_opened_toolset_are_the_tools_and_silenced_like_any_tool():
    tools = {"one": server("geo.move/to"), "two": server("add", "x" * 70)}
    runner = ToolRunner(tools, {"two": 3.0})
    right = {"a": 1, "_model-b": 2}
    assert played(runner, ("geo_move_to", right), ("add", {"a": 1, "c": 2}), ("one", {})) == [
        '{"a": 1, "_model-b": 2}',
        "Error: wrong arguments for add: _model-b: field required; c: is no argument.",
        f"Error: there is no tool 'one'; the tools are: geo_move_to, add, {'x' * 64}.",
    ]
    schema = runner.tools["add"].schema()["function"]
    assert schema["name"] == "add"
    assert "title" not in schema["parameters"], "titles make prompts longer"
    assert not any(one.opened for one in tools.values())
    assert played(ToolRunner({"one": server("add")}, wrap=SilentTool), ("add", right)) == ["No passage found."]


def test_two_tools_of_one_name_are_refused_and_what_was_open_is_closed():
    both = {"one": server("add"), "two": server("sub", "add")}
    with pytest.raises(ConfigError, match=r"two tools are named add \(one and two\); give one a prefix"):
        played(ToolRunner(both))
    assert not any(one.opened for one in both.values())


def test_calls_errors_seconds_and_a_tools_own_numbers():
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
    assert ToolCounts({"a": near, "b": far}).metrics()[metric.TOOL_AWAY] == 1.0, "whichever comes first"
    each = {"calls": 2.0, "errors": 1.0, "seconds": 1.0, "away": 0.25, "hits": 2.0}
    names = [metric.CALLS_OF_TOOL.of("near"), metric.ERRORS_OF_TOOL.of("near"), metric.SECONDS_OF_TOOL.of("near")]
    names += ["tools/near/away", "tools/near/hits"]
    assert [found[name] for name in names] == pytest.approx(list(each.values()))
    assert not any(name.startswith("tools//") for name in found)
    assert Catalogue().undeclared(found) == ["tools/far/away", *names[-2:]], "the tool itself declares what it records"
    assert metric.TOOL_AWAY not in ToolCounts({"silent": unknown}).metrics(), "no tool tells"
    assert (counts + counts - counts) == counts
    assert (counts - counts).total == ToolCount()
