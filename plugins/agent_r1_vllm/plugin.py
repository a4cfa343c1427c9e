"""Declares the `vllm` engine; importing this module imports neither vLLM nor torch."""

from __future__ import annotations

from agent_r1_core import EngineSpec, hookimpl

AGENT_R1_PLUGIN_API = 1


@hookimpl
def register_engines() -> list[EngineSpec]:
    """The engine of the vLLM library."""
    return [
        EngineSpec(
            "vllm",
            "agent_r1_vllm.engine:VllmEngine",
            "generates with vLLM on GPUs or a CPU, in this process or in its own; pip install 'agent-r1[vllm]'",
        )
    ]
