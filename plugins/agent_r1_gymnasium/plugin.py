"""Declares the environments `gymnasium`, `frozen_lake`, `sokoban` and `bandit`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import EnvSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_envs() -> Iterable[EnvSpec]:
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
        EnvSpec(
            "sokoban", "agent_r1_gymnasium.sokoban:Sokoban", "Push boxes onto targets in a room that can be solved"
        ),
        EnvSpec("bandit", "agent_r1_gymnasium.bandit:Bandit", "Two arms with symbolic names: one safe, one risky"),
    ]
