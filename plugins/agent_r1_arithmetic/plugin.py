"""Declares the task source `arithmetic`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import TaskSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tasks() -> Iterable[TaskSpec]:
    return [TaskSpec("arithmetic", "agent_r1_arithmetic.source:Arithmetic", "Generated sums with whole answers")]
