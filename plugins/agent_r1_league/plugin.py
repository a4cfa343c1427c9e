"""Declares the command that holds algorithms against the truth."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import CommandSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_commands() -> Iterable[CommandSpec]:
    return [
        CommandSpec(
            "league",
            "agent_r1_league.league_command:league",
            "Hold every algorithm's credit against exact advantages.",
        )
    ]
