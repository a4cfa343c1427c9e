"""Declares the task source `hotpotqa`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import TaskSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tasks() -> Iterable[TaskSpec]:
    """The one task source of this plugin."""
    return [
        TaskSpec(
            "hotpotqa",
            "agent_r1_hotpotqa.source:HotpotQA",
            "Multi-hop questions over Wikipedia with their paragraphs, from a local file or the hub",
        )
    ]
