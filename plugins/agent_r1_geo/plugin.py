"""Declares the task source `geo`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import TaskSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tasks() -> Iterable[TaskSpec]:
    return [
        TaskSpec(
            "geo",
            "agent_r1_geo.source:Geo",
            "Questions of one and more hops about real countries and cities, with their corpus",
        )
    ]
