"""Declares the environment and the task source `openenv`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import EnvSpec, TaskSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_envs() -> Iterable[EnvSpec]:
    return [EnvSpec("openenv", "agent_r1_openenv.env:OpenEnv", "Any environment that an OpenEnv server runs")]


@hookimpl
def register_tasks() -> Iterable[TaskSpec]:
    return [TaskSpec("openenv", "agent_r1_openenv.source:OpenEnvTasks", "The tasks that an OpenEnv server lists")]
