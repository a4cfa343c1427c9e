"""A tiny Llama, and a writer of models in GGUF as llama.cpp writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from agent_r1_core.testing import CHAT_TEMPLATE, tiny_tokenizer

LAYERS, HEADS, KEY_HEADS = 2, 4, 2
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4
Change = Callable[[gguf.GGUFWriter], Any]


def tiny_llama() -> PreTrainedModel:
    """A random one, whose queries and keys GGUF stores in another order."""
    sizes = {"vocab_size": len(tokens()), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": LAYERS}
    sizes |= {"num_attention_heads": HEADS, "num_key_value_heads": KEY_HEADS, "max_position_embeddings": 4096}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = LlamaConfig(**sizes, initializer_range=0.2, rms_norm_eps=1e-5, tie_word_embeddings=True)
        return LlamaForCausalLM(config).eval()


def tokens() -> list[str]:
    """Those of the tiny tokenizer, and two spaces as one."""
    vocabulary = tiny_tokenizer().get_vocab()
    return [*sorted(vocabulary, key=lambda token: vocabulary[token]), "ĠĠ"]


def write_gguf(
    file: Path, model: PreTrainedModel, change: Change = lambda writer: None, *, tokenizer: bool = True, **other: str
) -> Path:
    """Write a model in GGUF; `change` adds to it, `other` are values in place of the usual ones."""
    writer = gguf.GGUFWriter(file, other.get("architecture", "llama"))
    config = model.config
    writer.add_name("a tiny one")
    writer.add_block_count(int(other.get("layers", LAYERS)))
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    if tokenizer:
        add_tokenizer(writer, other.get("rule", "smollm"))
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, LAYERS)
    for name, tensor in model.state_dict().items():
        if name != "lm_head.weight":
            writer.add_tensor(names.get_name(name, (".weight",)), stored(name, tensor).numpy())
    change(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def add_tokenizer(writer: gguf.GGUFWriter, rule: str) -> None:
    plain, spelled = tiny_tokenizer(), tokens()
    special = {plain.pad_token, plain.eos_token, "<|im_start|>"}
    tagged = {one for one in spelled if one[0] == "<" and len(one) > 1}
    kinds = [CONTROL if one in special else USER_DEFINED if one in tagged else NORMAL for one in spelled]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(rule)
    writer.add_token_list(spelled)
    writer.add_token_types(kinds)
    writer.add_token_merges(["Ġ Ġ"])
    writer.add_eos_token_id(plain.eos_token_id)
    writer.add_pad_token_id(plain.pad_token_id)
    writer.add_chat_template(CHAT_TEMPLATE)


def stored(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """As llama.cpp stores it: the halves of each head of queries and keys are interleaved."""
    heads = HEADS if "q_proj" in name else KEY_HEADS if "k_proj" in name else 0
    if not heads:
        return tensor
    half = tensor.shape[0] // heads // 2
    return tensor.reshape(heads, 2, half, -1).swapaxes(1, 2).reshape(tensor.shape).contiguous()
