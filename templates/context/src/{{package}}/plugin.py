"""Declares the {{kind}} `{{name}}`; agent-r1 imports this module to list it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import ContextSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_contexts() -> Iterable[ContextSpec]:
    """The component of this plugin."""
    return [
        ContextSpec(
            name="{{name}}",
            target="{{package}}.context:{{class}}",
            summary="Everything, but answers are cut once they are old",
        )
    ]
