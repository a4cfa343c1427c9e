"""The bundled model's folder, tokenizer and weights, loaded once."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

import agent_r1_core


@pytest.fixture(scope="session")
def folder() -> Path:
    return Path(agent_r1_core.__file__).parent / "bundled" / "tiny"


@pytest.fixture(scope="session")
def tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast.from_pretrained(folder)


@pytest.fixture(scope="session")
def model(folder: Path) -> Qwen2ForCausalLM:
    return Qwen2ForCausalLM.from_pretrained(folder, dtype="float32").eval()
