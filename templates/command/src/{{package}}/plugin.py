"""Declares the {{kind}} `{{name}}`; agent-r1 imports this module to list it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import CommandSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_commands() -> Iterable[CommandSpec]:
    """The command of this plugin."""
    return [
        CommandSpec(
            name="{{name}}",
            target="{{package}}.command:{{name}}",
            summary="Print a metric of a run, step by step.",
        )
    ]
