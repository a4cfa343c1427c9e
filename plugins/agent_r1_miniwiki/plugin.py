"""Declares the task source `miniwiki`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import TaskSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tasks() -> Iterable[TaskSpec]:
    return [
        TaskSpec(
            "miniwiki",
            "agent_r1_miniwiki.source:MiniWiki",
            "Multi-hop questions about invented people, films, cities and companies, with their corpus",
        )
    ]
