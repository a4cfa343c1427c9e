"""Declares the task source `seeds`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import TaskSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tasks() -> Iterable[TaskSpec]:
    return [TaskSpec("seeds", "agent_r1_seeds.source:Seeds", "Seeds for environments that generate their own start")]
