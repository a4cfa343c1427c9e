"""The whole plugin contract: one hook per kind, without arguments, returning specs. A plugin implements any of them."""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from agent_r1_core.specs import (
    AlgorithmSpec,
    CommandSpec,
    ContextSpec,
    EngineSpec,
    EnvSpec,
    RewardSpec,
    SiteSpec,
    TaskSpec,
    ToolFormatSpec,
    ToolSpec,
    TrackerSpec,
)

PROJECT = "agent_r1"
"""Name of the pluggy project and of the entry-point group."""

PLUGIN_API = 1
"""A plugin module states the version that it was written for: `AGENT_R1_PLUGIN_API = 1`."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def register_tools() -> Iterable[ToolSpec]:  # type: ignore[empty-body]
    """Tools that environments may call."""


@hookspec
def register_envs() -> Iterable[EnvSpec]:  # type: ignore[empty-body]
    """Environments."""


@hookspec
def register_rewards() -> Iterable[RewardSpec]:  # type: ignore[empty-body]
    """Process and outcome rewards."""


@hookspec
def register_algorithms() -> Iterable[AlgorithmSpec]:  # type: ignore[empty-body]
    """Training algorithms."""


@hookspec
def register_tasks() -> Iterable[TaskSpec]:  # type: ignore[empty-body]
    """Task sources."""


@hookspec
def register_trackers() -> Iterable[TrackerSpec]:  # type: ignore[empty-body]
    """Trackers."""


@hookspec
def register_engines() -> Iterable[EngineSpec]:  # type: ignore[empty-body]
    """Generation engines."""


@hookspec
def register_tool_formats() -> Iterable[ToolFormatSpec]:  # type: ignore[empty-body]
    """Formats of tool calls."""


@hookspec
def register_contexts() -> Iterable[ContextSpec]:  # type: ignore[empty-body]
    """Context strategies."""


@hookspec
def register_commands() -> Iterable[CommandSpec]:  # type: ignore[empty-body]
    """Commands of `agent-r1`."""


@hookspec
def register_sites() -> Iterable[SiteSpec]:  # type: ignore[empty-body]
    """Sites, where the workers of a run are."""
