"""Declares the tools `python` and `shell`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import ToolSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tools() -> Iterable[ToolSpec]:
    return [
        ToolSpec("python", "agent_r1_python.python_tool:Python", "Runs Python in a sandbox; variables survive calls"),
        ToolSpec("shell", "agent_r1_python.shell_tool:ShellTool", "Runs commands in a sandbox; files survive calls"),
    ]
