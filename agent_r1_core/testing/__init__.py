"""What a plugin author tests with: contract classes and fakes; names load on first access."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "CHAT_TEMPLATE": "tokenizer",
    "make_task": "trajectories",
    "make_trajectory": "trajectories",
    "random_group": "trajectories",
    "random_trajectory": "trajectories",
    "tiny_model": "model",
    "tiny_model_folder": "model",
    "tiny_tokenizer": "tokenizer",
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
