"""Declares the command `agent-r1 view`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import CommandSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_commands() -> Iterable[CommandSpec]:
    return [
        CommandSpec("view", "agent_r1_viewer.view_command:view", "Show runs in a browser: curves, groups, episodes.")
    ]
