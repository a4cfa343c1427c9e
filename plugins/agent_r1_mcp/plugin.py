"""Declares the toolset `mcp`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import ToolSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tools() -> Iterable[ToolSpec]:
    return [ToolSpec("mcp", "agent_r1_mcp.toolset:McpToolset", "The tools of an MCP server: a command, or an address")]
