"""Declares the task source `gsm8k`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import TaskSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tasks() -> Iterable[TaskSpec]:
    return [
        TaskSpec("gsm8k", "agent_r1_gsm8k.source:GSM8K", "Grade-school word problems, from a local file or the hub")
    ]
