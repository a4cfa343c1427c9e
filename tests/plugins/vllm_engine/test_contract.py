"""The engine keeps the contract that every engine keeps, on a real vLLM."""

from __future__ import annotations

from typing import ClassVar

from agent_r1_vllm.engine import VllmEngine

from agent_r1_core.testing import EngineContract


class TestVllmEngine(EngineContract):
    component = VllmEngine
    config: ClassVar = {"kv_cache_memory": 0.125}
    sizes: ClassVar = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}
