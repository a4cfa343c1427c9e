"""Declares the command that plays and learns recorded steps again."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import CommandSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_commands() -> Iterable[CommandSpec]:
    return [
        CommandSpec(
            "replay",
            "agent_r1_replay.replay_command:replay",
            "Repeat a recorded step, or learn from it otherwise.",
        )
    ]
