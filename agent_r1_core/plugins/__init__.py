"""Finds, names, reports and makes components; imports neither pydantic nor a component before it must."""

from __future__ import annotations

from typing import Any

from agent_r1_core.plugins.kinds import KINDS, Kind
from agent_r1_core.plugins.nearest import did_you_mean
from agent_r1_core.plugins.records import ComponentRecord, LoadedComponent, PluginRecord, PluginStatus
from agent_r1_core.plugins.registry import DISABLE_VARIABLE, Registry

__all__ = [
    "DISABLE_VARIABLE",
    "KINDS",
    "ComponentRecord",
    "Kind",
    "LoadedComponent",
    "PluginRecord",
    "PluginStatus",
    "Problem",
    "Registry",
    "check_component",
    "check_plugin",
    "check_registered",
    "did_you_mean",
    "validate",
]

_LAZY = {
    "check_component": "checks",
    "check_plugin": "checks",
    "check_registered": "checks",
    "Problem": "validation",
    "validate": "validation",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _LAZY:
        raise AttributeError(f"module 'agent_r1_core.plugins' has no attribute {name!r}")
    return getattr(import_module(f"agent_r1_core.plugins.{_LAZY[name]}"), name)
