"""A toolset's members take its place: for the model, for calls, for time-outs, for what is silenced."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from agent_r1_core import ConfigError, SchemaTool, Task, Tool, ToolCall, ToolContext, ToolResources, Toolset
from agent_r1_core.evaluation.baselines import SilentTool
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


def played(runner: ToolRunner, *calls: ToolCall) -> list[str]:
    async def work() -> list[str]:
        await runner.start(ToolResources(""))
        try:
            context = ToolContext("episode", 0, Task("task", "?"), random.Random(0))
            return [(await runner.call(call, context)).text for call in calls]
        finally:
            await runner.close()

    return asyncio.run(work())


def test_the_members_of_an_opened_toolset_are_the_tools() -> None:
    tools = {"one": server("geo.move/to"), "two": server("add", "x" * 70)}
    runner = ToolRunner(tools, {"two": 3.0})
    right = {"a": 1, "_model-b": 2}
    texts = played(
        runner,
        ToolCall("geo_move_to", right),
        ToolCall("add", {"a": 1, "c": 2}),
        ToolCall("one", {}),
    )
    assert texts == [
        '{"a": 1, "_model-b": 2}',
        "Error: wrong arguments for add: _model-b: field required; c: is no argument.",
        f"Error: there is no tool 'one'; the tools are: geo_move_to, add, {'x' * 64}.",
    ]
    schema = runner.tools["add"].schema()["function"]
    assert schema["name"] == "add"
    assert "title" not in schema["parameters"], "titles make prompts longer"
    assert not any(one.opened for one in tools.values())


def test_two_tools_of_one_name_are_refused_and_what_was_open_is_closed() -> None:
    both = {"one": server("add"), "two": server("sub", "add")}
    with pytest.raises(ConfigError, match=r"two tools are named add \(one and two\); give one a prefix"):
        played(ToolRunner(both))
    assert not any(one.opened for one in both.values())


def test_members_are_silenced_like_any_tool() -> None:
    assert played(ToolRunner({"one": server("add")}, wrap=SilentTool), ToolCall("add", {"a": 1, "_model-b": 2})) == [
        "No passage found."
    ]
