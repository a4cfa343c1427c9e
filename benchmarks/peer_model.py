"""Make the model of the comparison with TRL; runs in TRL's environment, whose chat template it uses.

    python peer_model.py FOLDER [--steps 250]
    python peer_model.py FOLDER --base MODEL --steps 4 --batch 4 --lr 1e-4

Without a base: a random Qwen2 of 0.85 M parameters with a BPE tokenizer of its own. With one: a real model and its
tokenizer, in float32. Both get TRL's Qwen2.5 template and are taught by supervised steps to call `multiply` and to say
what came back: a model that has never called a tool would play episodes of one turn.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Any

import torch
import trl
from peer_trl import multiply
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TAGS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
TEMPLATE = (Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja").read_text(encoding="utf-8")
"""One that TRL can read calls in."""


def conversation(a: int, b: int) -> list[dict[str, Any]]:
    call = {"type": "function", "function": {"name": "multiply", "arguments": {"a": a, "b": b}}}
    return [
        {"role": "system", "content": "Use tools."},
        {"role": "user", "content": f"What is {a} * {b}?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "multiply", "content": str(a * b)},
        {"role": "assistant", "content": str(a * b)},
    ]


def base_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer of a model whose turns end with `<|im_end|>`."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, padding_side="left", pad_token="<|endoftext|>")
    if (end := tokenizer.eos_token) != "<|im_end|>":
        raise SystemExit(f"turns of {folder} end with {end}; give a model whose turns end with <|im_end|>")
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def make_tokenizer(rng: random.Random) -> PreTrainedTokenizerFast:
    """A byte-level BPE of 768 pieces, trained on conversations in TRL's Qwen2.5 template."""
    pieces = Tokenizer(models.BPE())
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces.decoder = decoders.ByteLevel()
    renderer = PreTrainedTokenizerFast(tokenizer_object=pieces, chat_template=TEMPLATE)
    said = [conversation(rng.randint(1, 9), rng.randint(1, 9)) for _ in range(400)]
    texts = [renderer.apply_chat_template(one, tools=[multiply], tokenize=False) for one in said]
    first: Any = {"special_tokens": SPECIAL, "initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    pieces.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=768, show_progress=False, **first))
    ends = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "padding_side": "left"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=pieces, chat_template=TEMPLATE, **ends)
    tokenizer.add_tokens(TAGS)
    return tokenizer


def make_model(tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """Random weights: 4 layers of 128."""
    torch.manual_seed(0)
    fields: dict[str, Any] = {
        **{"vocab_size": len(tokenizer), "max_position_embeddings": 2048, "tie_word_embeddings": True},
        **{"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4, "num_attention_heads": 4},
        **{"num_key_value_heads": 2, "bos_token_id": None},
        **{"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id},
    }
    return Qwen2ForCausalLM(Qwen2Config(**fields))


def example(tokenizer: PreTrainedTokenizerFast, a: int, b: int) -> tuple[list[int], list[int]]:
    """Ids of a conversation, with labels for the assistant's tokens."""
    said = conversation(a, b)

    def ids(messages: int, prompt: bool) -> list[int]:
        options: Any = {"tools": [multiply], "add_generation_prompt": prompt, "return_dict": False}
        found: Any = tokenizer.apply_chat_template(said[:messages], **options)
        return list(found)

    labels: list[int] = []
    for messages in (2, 4):
        labels += [-100] * (len(ids(messages, True)) - len(labels))
        labels += ids(messages + 1, False)[len(labels) :]
    return ids(5, False), labels


def teach(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, rng: random.Random, steps: int, batch: int, lr: float
) -> None:
    """Supervised steps of `batch` conversations."""
    known = {(a, b): example(tokenizer, a, b) for a in range(1, 10) for b in range(1, 10)}
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.0)
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = lr * min((step + 1) / min(30, steps / 4), max(0.05, 1 - step / steps))
        pairs = [known[rng.randint(1, 9), rng.randint(1, 9)] for _ in range(batch)]
        width = max(len(ids) for ids, _ in pairs)
        lengths = torch.tensor([len(ids) for ids, _ in pairs])
        loss = model(
            input_ids=torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in pairs]),
            attention_mask=(torch.arange(width) < lengths[:, None]).long(),
            labels=torch.tensor([labels + [-100] * (width - len(labels)) for _, labels in pairs]),
        ).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        if step % 50 == 0 or steps < 50:
            print(f"step {step}: loss {loss.item():.4f}", file=sys.stderr)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--base", type=Path, help="folder of a real model to begin with")
    options.add_argument("--steps", type=int, default=250, help="supervised steps")
    options.add_argument("--batch", type=int, default=16, help="conversations of a step")
    options.add_argument("--lr", type=float, default=1.5e-3, help="highest learning rate")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    rng = random.Random(0)
    tokenizer = base_tokenizer(chosen.base) if chosen.base else make_tokenizer(rng)
    real: Any = AutoModelForCausalLM.from_pretrained
    model = real(chosen.base, dtype=torch.float32) if chosen.base else make_model(tokenizer)
    teach(model, tokenizer, rng, chosen.steps, chosen.batch, chosen.lr)
    model.save_pretrained(chosen.folder)
    tokenizer.save_pretrained(chosen.folder)
    print(json.dumps({"parameters": model.num_parameters(), "vocabulary": len(tokenizer)}))


if __name__ == "__main__":
    main()
