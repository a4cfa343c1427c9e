"""Declares the environment `program`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import EnvSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_envs() -> Iterable[EnvSpec]:
    return [
        EnvSpec(
            "program",
            "agent_r1_gateway.env:ProgramEnv",
            "Your own agent: a command or a function that asks a model over the OpenAI or Anthropic API",
        )
    ]
