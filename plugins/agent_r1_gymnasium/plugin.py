"""Declares the environments `gymnasium` and `frozen_lake`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import EnvSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_envs() -> Iterable[EnvSpec]:
    """The environments of this plugin."""
    return [
        EnvSpec(
            "gymnasium",
            "agent_r1_gymnasium.env:Gymnasium",
            "Any environment of gymnasium with discrete actions, shown as text",
        ),
        EnvSpec(
            "frozen_lake",
            "agent_r1_gymnasium.frozen_lake:FrozenLake",
            "Cross a slippery lake on a map drawn from the task's seed",
        ),
    ]
