"""Tiny random models in folders, and engines that serve them."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
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
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
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


class LetterTokenizer:
    """Id 0 is `<stop>`, the others are one letter each."""

    def decode(self, ids: list[int]) -> str:
        return "".join("<stop>" if token == 0 else chr(ord("a") + token % 26) for token in ids)


@pytest.fixture
def tokenizer() -> LetterTokenizer:
    return LetterTokenizer()


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
        kind: str = "qwen2",
        dtype: str = "float32",
        deterministic: bool = False,
        tokenizer: Any = None,
        compiled: bool = True,
        **options: Any,
    ) -> AsyncIterator[TransformersEngine]:
        engine = TransformersEngine(TransformersEngine.Config(**options))
        kernels.switch(compiled)
        await engine.start(EngineModel(model(kind)[1], dtype, deterministic=deterministic, tokenizer=tokenizer))
        try:
            yield engine
        finally:
            kernels.switch(True)
            await engine.close()

    return serve


class Gate:
    """Holds an engine's worker inside one of its steps until the gate is opened."""

    def __init__(self, engine: TransformersEngine, step: int) -> None:
        decoder = engine._worker.backend._batch._decoder
        original, steps = decoder.next_logits, itertools.count(1)
        self._inside, self._opened = threading.Event(), threading.Event()

        def wait_at_the_gate(*contexts: Any) -> Any:
            if next(steps) == step:
                self._inside.set()
                self._opened.wait(60)
            return original(*contexts)

        decoder.next_logits = wait_at_the_gate

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._inside.wait, 60), "the worker never came to the gate"

    async def open(self) -> None:
        """Let what was asked for meanwhile reach the worker's inbox, then let the worker go on."""
        await asyncio.sleep(0)
        self._opened.set()


@pytest.fixture
def gate() -> type[Gate]:
    return Gate


@pytest.fixture
def prompts() -> list[tuple[int, ...]]:
    """Contexts of different lengths, two of them equal, one of a single id."""
    source = random.Random(1)
    made = [tuple(source.randrange(1, VOCABULARY) for _ in range(length)) for length in (5, 17, 1, 30, 9)]
    return [*made, made[1]]
