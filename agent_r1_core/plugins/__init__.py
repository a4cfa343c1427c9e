"""Finds, names, reports and makes components; imports neither pydantic nor a component before it must."""

from __future__ import annotations

from agent_r1_core.plugins.kinds import KINDS
from agent_r1_core.plugins.records import ComponentRecord, LoadedComponent, PluginRecord, PluginStatus
from agent_r1_core.plugins.registry import Registry

__all__ = [
    "KINDS",
    "ComponentRecord",
    "LoadedComponent",
    "PluginRecord",
    "PluginStatus",
    "Registry",
]
