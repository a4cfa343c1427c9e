"""The environment `tool_calling` keeps the contract of environments."""

from __future__ import annotations

from agent_r1_tool_calling.env import ToolCalling
from agent_r1_tool_formats.hermes import Hermes

from agent_r1_core import tool
from agent_r1_core.testing import ToolEnvContract


@tool
def lookup(name: str) -> str:
    """Look a name up."""
    return f"{name} was born in Tavelo."


class TestToolCalling(ToolEnvContract):
    component = ToolCalling
    tools = (lookup(),)
    tool_format = Hermes()
    actions = (
        '<tool_call>{"name": "lookup", "arguments": {"name": "Karimo"}}</tool_call>',
        "Hm.",
        "<answer>Tavelo</answer>",
    )
