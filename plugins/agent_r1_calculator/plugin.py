"""Declares the tool `calculator`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import ToolSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_tools() -> Iterable[ToolSpec]:
    return [ToolSpec("calculator", "agent_r1_calculator.tool:Calculator", "Evaluates an arithmetic expression")]
