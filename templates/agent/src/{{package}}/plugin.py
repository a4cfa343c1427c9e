"""Declares the agent `{{name}}` as an environment; agent-r1 imports this module to list it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import EnvSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_envs() -> Iterable[EnvSpec]:
    """The component of this plugin."""
    return [
        EnvSpec(
            name="{{name}}",
            target="{{package}}.env:{{class}}",
            summary="An agent that looks a name up, and answers",
        )
    ]
