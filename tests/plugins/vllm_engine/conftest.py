"""Tiny random models with heads large enough for vLLM's kernels, and engines that serve them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from agent_r1_vllm.engine import VllmEngine

from agent_r1_core.contracts.engine import EngineModel
from agent_r1_core.testing import tiny_model, tiny_model_folder, tiny_tokenizer

SIZES = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}


@pytest.fixture(scope="session")
def model() -> Callable[..., Any]:
    """A random model: `model(seed, tie)`."""
    return lambda seed=0, tie=True: tiny_model(seed, tie, **SIZES)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """The folder of the model of seed 0: `folder(tie)`."""
    made: dict[bool, Path] = {}

    def make(tie: bool = True) -> str:
        if tie not in made:
            made[tie] = tiny_model_folder(tmp_path_factory.mktemp("model"), tie=tie, **SIZES)
        return str(made[tie])

    return make


@pytest.fixture(scope="session")
def serving() -> Callable[..., Any]:
    """`async with serving(folder, ...) as engine`: a started engine, closed at the end."""

    @asynccontextmanager
    async def serve(
        folder: str, dtype: str = "float32", deterministic: bool = False, tokens: bool = True, **options: Any
    ) -> AsyncIterator[VllmEngine]:
        engine = VllmEngine(VllmEngine.Config(**{"kv_cache_memory": 0.125, **options}))
        tokenizer = tiny_tokenizer() if tokens else None
        await engine.start(EngineModel(folder, dtype, deterministic=deterministic, tokenizer=tokenizer))
        try:
            yield engine
        finally:
            await engine.close()

    return serve


@pytest.fixture
def prompts() -> list[tuple[int, ...]]:
    """Contexts of different lengths, two of them equal."""
    source = random.Random(1)
    made = [tuple(source.randrange(250) for _ in range(length)) for length in (5, 70, 1, 130, 33)]
    return [*made, made[1]]
