"""Tiny random models in folders, and engines that serve them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from agent_r1_transformers.engine import TransformersEngine

from agent_r1_core import kernels
from agent_r1_core.contracts.engine import EngineModel

VOCABULARY = 97
SIZES: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}
SIZES |= {"vocab_size": VOCABULARY, "max_position_embeddings": 256, "initializer_range": 0.3}
SIZES |= dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
ROPE = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "original_max_position_embeddings": 64}
ROPE |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2": ("Qwen2", {"num_key_value_heads": 2, "tie_word_embeddings": True}),
    "qwen2_untied": ("Qwen2", {"num_key_value_heads": 4, "tie_word_embeddings": False}),
    "qwen3": ("Qwen3", {"num_key_value_heads": 1, "head_dim": 16}),
    "llama": ("Llama", {"num_key_value_heads": 2, "attention_bias": True}),
    "llama3": ("Llama", {"rope_parameters": ROPE}),
    "gpt_neox": ("GPTNeoX", {"rotary_pct": 0.5}),
    "gpt2": ("GPT2", {}),
    "gemma": ("Gemma", {"num_key_value_heads": 1, "head_dim": 8}),
    "mistral_window": ("Mistral", {"num_key_value_heads": 2, "sliding_window": 8}),
    "mamba": ("Mamba", {"state_size": 8}),
}


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Any, str]]:
    """A random model by kind: the module in float32, and the folder that holds it."""
    made: dict[str, tuple[Any, str]] = {}

    def make(kind: str) -> tuple[Any, str]:
        if kind not in made:
            family, options = KINDS[kind]
            torch.manual_seed(list(KINDS).index(kind))
            config = getattr(transformers, f"{family}Config")(**{**SIZES, **options})
            module = transformers.AutoModelForCausalLM.from_config(config).eval()
            folder: Path = tmp_path_factory.mktemp(kind)
            module.save_pretrained(folder)
            made[kind] = (module, str(folder))
        return made[kind]

    return make


@pytest.fixture
def serving(model: Callable[[str], tuple[Any, str]]) -> Callable[..., Any]:
    """`async with serving(kind, ...) as engine`: a started engine of that model, closed at the end."""

    @asynccontextmanager
    async def serve(
        kind: str = "qwen2", compiled: bool = True, dtype: str = "float32", device: str = "cpu", **options: Any
    ) -> AsyncIterator[TransformersEngine]:
        told = {name: options.pop(name) for name in ("tokenizer", "deterministic") if name in options}
        engine = TransformersEngine(TransformersEngine.Config(**options))
        kernels.switch(compiled)
        await engine.start(EngineModel(model(kind)[1], dtype, device, **told))
        try:
            yield engine
        finally:
            kernels.switch(True)
            await engine.close()

    return serve


@pytest.fixture
def prompts() -> list[tuple[int, ...]]:
    """Contexts of different lengths, two of them equal, one of a single id."""
    source = random.Random(1)
    made = [tuple(source.randrange(1, VOCABULARY) for _ in range(length)) for length in (5, 17, 1, 30, 9)]
    return [*made, made[1]]
