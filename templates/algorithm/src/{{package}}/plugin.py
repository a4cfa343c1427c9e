"""Declares the {{kind}} `{{name}}`; agent-r1 imports this module to list it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import AlgorithmSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_algorithms() -> Iterable[AlgorithmSpec]:
    """The component of this plugin."""
    return [
        AlgorithmSpec(
            name="{{name}}",
            target="{{package}}.algorithm:{{class}}",
            summary="REINFORCE with the group's mean as baseline",
        )
    ]
