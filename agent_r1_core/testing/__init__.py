"""Contract classes and fakes for the tests of plugin authors; names load on first access."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_NAMES = {
    "batch": "loss_tokens tiny_batch",
    "contracts.algorithm": "AlgorithmContract",
    "contracts.base": "PluginContract",
    "contracts.context": "ContextContract",
    "contracts.engine": "EngineContract",
    "contracts.env": "ToolEnvContract",
    "contracts.functions": "CommandContract SiteContract",
    "contracts.scoring": "RewardContract ScoreContract",
    "contracts.tasks": "TaskSourceContract",
    "contracts.tool": "ToolContract",
    "contracts.tool_format": "ToolFormatContract",
    "contracts.tracker": "TrackerContract",
    "model": "CHAT_TEMPLATE tiny_model tiny_model_folder tiny_tokenizer",
    "scripted": "Cue make_request ScriptedPolicy",
    "trajectories": "make_task make_trajectory random_group random_trajectory",
}
"""Public names by the module that has them."""
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'agent_r1_core.testing' has no attribute {name!r}")
    value = getattr(import_module(f"agent_r1_core.testing.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
