"""A tokenizer in memory, and a random Qwen2 model of a few thousand parameters: enough to run everything for real.

The tokenizer knows bytes, a few tags and a Qwen-like chat template; it has no merges, so a text has as many tokens as
UTF-8 bytes. The model is untrained, so it generates noise.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<answer>", "</answer>")

CHAT_TEMPLATE = """\
{%- set system = messages[0]['content'] if messages and messages[0]['role'] == 'system' else '' -%}
{%- if system or tools -%}
{{- '<|im_start|>system\\n' + system -}}
{%- if tools -%}
{{- ('\\n' if system else '') + 'Tools:' -}}
{%- for tool in tools -%}{{- ' ' + tool['function']['name'] -}}{%- endfor -%}
{%- endif -%}
{{- '<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
{%- if message['role'] == 'tool' -%}
{%- if loop.first or messages[loop.index0 - 1]['role'] != 'tool' -%}{{- '<|im_start|>user\\n' -}}{%- endif -%}
{{- '<tool_response>\\n' + message['content'] + '\\n</tool_response>' -}}
{%- if loop.last or messages[loop.index0 + 1]['role'] != 'tool' -%}
{{- '<|im_end|>\\n' -}}
{%- else -%}
{{- '\\n' -}}
{%- endif -%}
{%- elif not (loop.first and message['role'] == 'system') -%}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""
"""It only appends: the text of a conversation is a prefix of the text of each of its continuations."""


def tiny_tokenizer(chat_template: str = CHAT_TEMPLATE) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer of 265 ids: pad `<|endoftext|>`, end of turn `<|im_end|>`, tags as single ids."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={symbol: index for index, symbol in enumerate(symbols)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([PAD, TURN_START, TURN_END])
    core.add_tokens([AddedToken(tag, normalized=False) for tag in TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=TURN_END,
        chat_template=chat_template,
        clean_up_tokenization_spaces=False,
    )


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
