"""Declares the {{kind}} `{{name}}`; agent-r1 imports this module to list it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import TaskSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tasks() -> Iterable[TaskSpec]:
    """The component of this plugin."""
    return [
        TaskSpec(
            name="{{name}}",
            target="{{package}}.tasks:{{class}}",
            summary="How often does a letter occur in a word?",
        )
    ]
