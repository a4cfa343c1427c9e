"""Declares the environment `countdown`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import EnvSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_envs() -> Iterable[EnvSpec]:
    return [
        EnvSpec("countdown", "agent_r1_countdown.env:Countdown", "Reach a target with the given numbers, each once")
    ]
