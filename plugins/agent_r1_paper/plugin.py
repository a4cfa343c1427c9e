"""Declares the command that repeats the paper's tables."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import CommandSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_commands() -> Iterable[CommandSpec]:
    return [
        CommandSpec(
            "reproduce",
            "agent_r1_paper.reproduce_command:reproduce",
            "Repeat a table of the paper, beside the paper's own.",
        )
    ]
