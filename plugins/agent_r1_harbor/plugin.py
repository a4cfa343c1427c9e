"""Declares the task source and the environment `harbor`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import EnvSpec, TaskSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tasks() -> Iterable[TaskSpec]:
    return [TaskSpec("harbor", "agent_r1_harbor.source:HarborTasks", "Folders of tasks in the format of Harbor")]


@hookimpl
def register_envs() -> Iterable[EnvSpec]:
    return [EnvSpec("harbor", "agent_r1_harbor.env:Harbor", "A shell on a task of Harbor, graded by its own tests")]
