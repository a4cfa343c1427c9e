"""Declares the environment `program` and the command `serve`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import CommandSpec, EnvSpec, hookimpl

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


@hookimpl
def register_commands() -> Iterable[CommandSpec]:
    return [
        CommandSpec(
            "serve", "agent_r1_gateway.serve_command:serve", "Answer programs over OpenAI's and Anthropic's APIs."
        )
    ]
