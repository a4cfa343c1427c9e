"""Declares the {{kind}} `{{name}}`; agent-r1 imports this module to list it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import ToolSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tools() -> Iterable[ToolSpec]:
    """The component of this plugin."""
    return [
        ToolSpec(
            name="{{name}}",
            target="{{package}}.tool:{{class}}",
            summary="Counts a letter in a word",
        )
    ]
