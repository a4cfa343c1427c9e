"""Declares the toolset `openapi`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import ToolSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tools() -> Iterable[ToolSpec]:
    return [ToolSpec("openapi", "agent_r1_openapi.toolset:OpenApiToolset", "The operations of an HTTP API as tools")]
