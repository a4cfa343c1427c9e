"""Declares the {{kind}} `{{name}}`; agent-r1 imports this module to list it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import RewardSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_rewards() -> Iterable[RewardSpec]:
    """The component of this plugin."""
    return [
        RewardSpec(
            name="{{name}}",
            target="{{package}}.reward:{{class}}",
            summary="A right answer in few words",
        )
    ]
