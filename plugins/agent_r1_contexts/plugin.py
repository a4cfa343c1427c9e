"""Declares the context strategies `append`, `window` and `summary`."""

from __future__ import annotations

from collections.abc import Iterable

from agent_r1_core import ContextSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_contexts() -> Iterable[ContextSpec]:
    """The strategies of this plugin."""
    return [
        ContextSpec("append", "agent_r1_contexts.append:Append", "Everything; an episode ends where it is too long"),
        ContextSpec("window", "agent_r1_contexts.window:Window", "The task and the last turns"),
        ContextSpec(
            "summary", "agent_r1_contexts.summary:Summary", "The task and a summary that the policy writes and learns"
        ),
    ]
