"""The tools whose calls `tool_calls.py` measures, in a module that another process can import."""

from __future__ import annotations

from typing import Any

from agent_r1_core import Tool, ToolArguments, ToolContext


class Echo(Tool):
    """Returns its argument at once."""

    name = "echo"

    class Arguments(ToolArguments):
        """What to return."""

        text: str

    def run(self, arguments: Any, context: ToolContext) -> str:
        """Return the text."""
        context.state["calls"] = context.state.get("calls", 0) + 1
        return str(arguments.text)


class AsyncEcho(Tool):
    """The same, awaited."""

    name = "async_echo"
    Arguments = Echo.Arguments

    async def run(self, arguments: Any, context: ToolContext) -> str:
        """Return the text."""
        context.state["calls"] = context.state.get("calls", 0) + 1
        return str(arguments.text)
