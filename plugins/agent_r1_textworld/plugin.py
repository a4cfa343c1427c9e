"""Declares the environment `textworld`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import EnvSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_envs() -> Iterable[EnvSpec]:
    return [
        EnvSpec(
            "textworld",
            "agent_r1_textworld.env:TextWorld",
            "A text adventure of TextWorld, made by seed and played in a Python of its own",
        )
    ]
