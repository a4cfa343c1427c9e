"""A local plugin file, as in the README."""

from __future__ import annotations

from agent_r1_core import ToolSpec, hookimpl, tool

AGENT_R1_PLUGIN_API = 1


@tool
def multiply(a: int, b: int) -> int:
    """Multiplies two integers.

    Args:
        a: The first factor.
        b: The second factor.
    """
    return a * b


@hookimpl
def register_tools():
    return [ToolSpec("multiply", ":multiply", "multiplies two integers")]
