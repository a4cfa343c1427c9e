"""Declares the environment `textarena`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import EnvSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_envs() -> Iterable[EnvSpec]:
    return [
        EnvSpec(
            "textarena",
            "agent_r1_textarena.env:TextArena",
            "A game of TextArena: alone, against a script or a frozen model, or against itself",
        )
    ]
