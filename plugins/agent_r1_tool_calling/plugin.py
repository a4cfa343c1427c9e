"""Declares the environment `tool_calling`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import EnvSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_envs() -> Iterable[EnvSpec]:
    return [
        EnvSpec(
            "tool_calling",
            "agent_r1_tool_calling.env:ToolCalling",
            "A question, tools to call over several turns, and an answer",
        )
    ]
