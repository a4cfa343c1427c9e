"""Declares the `transformers` engine; importing this module imports neither torch nor transformers."""

from __future__ import annotations

from agent_r1_core import EngineSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_engines() -> list[EngineSpec]:
    """The embedded engine."""
    return [
        EngineSpec(
            "transformers",
            "agent_r1_transformers.engine:TransformersEngine",
            "generates inside this process with any decoder-only model of transformers, on a CPU or one GPU",
        )
    ]
