"""Where the worlds model starts: the weights of `tiny`, which can copy and knows the chat template."""

from __future__ import annotations

from pathlib import Path

import torch
from tiny_model.training import new_model
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

TINY = Path(__file__).resolve().parents[2] / "agent_r1_core" / "bundled" / "tiny"
EMBEDDINGS = "model.embed_tokens.weight"


@torch.no_grad()
def from_tiny(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen2ForCausalLM:
    """A model with tiny's weights; what stands in both vocabularies keeps its embedding, new pieces get random ones."""
    model, tiny = new_model(tokenizer, seed), Qwen2ForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    known = PreTrainedTokenizerFast.from_pretrained(TINY).get_vocab()
    weights = {name: weight for name, weight in tiny.state_dict().items() if name not in (EMBEDDINGS, "lm_head.weight")}
    model.load_state_dict(weights, strict=False)
    embeddings = model.model.embed_tokens.weight
    for token, index in tokenizer.get_vocab().items():
        if token in known:
            embeddings[index] = tiny.model.embed_tokens.weight[known[token]]
    return model
