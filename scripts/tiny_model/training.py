"""Supervised training of the tiny model on demonstrations, from random weights."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from tiny_model.demonstrations import Demonstration, Demonstrator

CONTEXT_WEIGHT = 0.3
"""Weight of tokens that are not imitated, in the first half: passages repeat names, which teaches copying."""


def new_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen2ForCausalLM:
    """Random weights: 4 layers of 192, 4 heads (2 key-value heads), tied embeddings."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        tie_word_embeddings=True,
        use_sliding_window=False,
        attention_dropout=0.0,
        initializer_range=0.05,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen2ForCausalLM(config)


def encode(tokenizer: PreTrainedTokenizerFast, demonstration: Demonstration) -> tuple[list[int], list[int]]:
    """Ids and their mask: 1 on what the assistant says, its end of turn included."""
    tools: list[Any] = [{"type": "function", "function": {"name": name}} for name in demonstration.tools]
    ids: list[int] = []
    mask: list[int] = []
    done = 0
    for index, message in enumerate(demonstration.messages):
        if message["role"] != "assistant":
            continue
        text = tokenizer.apply_chat_template(
            demonstration.messages[:index], tools=tools or None, add_generation_prompt=True, tokenize=False
        )
        said = message["content"] + tokenizer.eos_token
        for piece, bit in ((text[done:], 0), (said, 1)):
            new = tokenizer.encode(piece, add_special_tokens=False)
            ids += new
            mask += [bit] * len(new)
        done = len(text) + len(said)
    return ids, mask


def batches(
    tokenizer: PreTrainedTokenizerFast, demonstrator: Demonstrator, size: int
) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Encoded demonstrations, `size` at a time."""
    stream = (encode(tokenizer, demonstration) for demonstration in demonstrator)
    while True:
        yield list(islice(stream, size))


def train(
    model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, *, steps: int, size: int, lr: float, seed: int
) -> None:
    """AdamW with warm-up and a cosine to a tenth; prints the loss at imitated tokens."""
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98))
    stream = batches(tokenizer, Demonstrator(seed), size)
    model.train()
    start, recent = time.time(), []
    for step in range(steps):
        progress = step / steps
        rate = lr * min(1.0, (step + 1) / 50) * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))
        for group in optimiser.param_groups:
            group["lr"] = rate
        recent.append(_accumulate(model, next(stream), CONTEXT_WEIGHT if progress < 0.5 else 0.0))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        if (step + 1) % 50 == 0:
            loss = sum(recent) / len(recent)
            print(f"step {step + 1}/{steps}  loss {loss:.4f}  {time.time() - start:.0f} s", flush=True)
            recent.clear()


def _accumulate(model: Qwen2ForCausalLM, batch: list[tuple[list[int], list[int]]], context_weight: float) -> float:
    """Backward through a batch in groups of similar length; returns the mean loss of imitated tokens."""
    batch = sorted(batch, key=lambda pair: len(pair[0]))
    imitated = sum(sum(mask[1:]) for _, mask in batch)
    total = sum(len(mask) - 1 for _, mask in batch)
    normaliser = imitated + context_weight * (total - imitated)
    loss_sum = 0.0
    for first in range(0, len(batch), 8):
        part = batch[first : first + 8]
        ids = _padded([ids for ids, _ in part], 0)
        mask = _padded([mask for _, mask in part], -1)[:, 1:]
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
        nll = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view_as(mask)
        weight = (mask == 1) + context_weight * (mask == 0)
        ((nll * weight).sum() / normaliser).backward()
        loss_sum += float(nll.detach()[mask == 1].sum())
    return loss_sum / imitated


def _padded(rows: list[list[int]], value: int) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [value] * (width - len(row)) for row in rows])
