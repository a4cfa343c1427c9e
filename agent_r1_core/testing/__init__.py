"""Contract classes and fakes for the tests of plugin authors; names load on first access."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "AlgorithmContract": "contracts.algorithm",
    "CHAT_TEMPLATE": "model",
    "CommandContract": "contracts.functions",
    "ContextContract": "contracts.context",
    "Cue": "scripted",
    "EngineContract": "contracts.engine",
    "loss_tokens": "batch",
    "make_request": "scripted",
    "make_task": "trajectories",
    "make_trajectory": "trajectories",
    "PluginContract": "contracts.base",
    "random_group": "trajectories",
    "random_trajectory": "trajectories",
    "RewardContract": "contracts.reward",
    "ScoreContract": "contracts.score",
    "ScriptedPolicy": "scripted",
    "SiteContract": "contracts.functions",
    "TaskSourceContract": "contracts.tasks",
    "tiny_batch": "batch",
    "tiny_model": "model",
    "tiny_model_folder": "model",
    "tiny_tokenizer": "model",
    "ToolContract": "contracts.tool",
    "ToolEnvContract": "contracts.env",
    "ToolFormatContract": "contracts.tool_format",
    "TrackerContract": "contracts.tracker",
}

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
