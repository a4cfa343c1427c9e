"""A random Qwen2 model of a few thousand parameters in a folder, with its tokenizer: enough to run everything for real.

It is untrained, so it generates noise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_r1_core.testing.tokenizer import CHAT_TEMPLATE, tiny_tokenizer


def tiny_model(seed: int = 0, tie: bool = True, **config: Any) -> Any:
    """A random `Qwen2ForCausalLM` in float32: 2 layers of 32, 4 heads, 2 key-value heads; leaves torch's RNG as it was.

    Args:
        seed: of the weights.
        tie: whether input and output embeddings share one matrix.
        config: further fields of `Qwen2Config`, e.g. `hidden_size=64`.
    """
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = tiny_tokenizer()
    settings: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "initializer_range": 0.2,
        "tie_word_embeddings": tie,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(Qwen2Config(**(settings | config))).float().eval()


def tiny_model_folder(
    path: str | Path, seed: int = 0, tie: bool = True, chat_template: str = CHAT_TEMPLATE, **config: Any
) -> Path:
    """Write `tiny_model` and `tiny_tokenizer` to a Hugging Face folder (created if missing) and return its path."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    tiny_model(seed, tie, **config).save_pretrained(folder)
    tiny_tokenizer(chat_template).save_pretrained(folder)
    return folder
