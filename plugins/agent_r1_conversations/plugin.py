"""Declares the task source `conversations`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import TaskSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tasks() -> Iterable[TaskSpec]:
    return [
        TaskSpec(
            "conversations",
            "agent_r1_conversations.source:Conversations",
            "Tasks with demonstrations: a file of conversations in the OpenAI chat format, or from the hub",
        )
    ]
