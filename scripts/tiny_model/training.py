"""Supervised training of the tiny model on demonstrations, from random weights."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from tiny_model.demonstrations import Demonstration
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

MUON_RATE, ADAM_RATE = 0.02, 2e-3
ROPE_THETA = 10_000.0
Batch = list[tuple[list[int], list[int]]]
"""Ids and mask of several demonstrations."""


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
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        tie_word_embeddings=True,
        use_sliding_window=False,
        attention_dropout=0.0,
        initializer_range=0.02,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen2ForCausalLM(config)
    torch.nn.init.normal_(model.model.embed_tokens.weight, std=0.1)
    look_back(model, strength=6.0)
    return model


@torch.no_grad()
def look_back(model: Qwen2ForCausalLM, strength: float) -> None:
    """Let the first two heads of the first layer begin by looking one and two tokens back.

    Copying needs such heads, and finding them is what takes a small model longest. By rotary positions R, biases
    b_q = R(-d) b_k score a key by sum_f |b_f|^2 cos(theta_f (distance - d)): highest at distance d.
    """
    config, attention = model.config, model.model.layers[0].self_attn
    size = config.hidden_size // config.num_attention_heads
    half = torch.arange(size // 2)
    angle = ROPE_THETA ** (-half / (size // 2))
    amplitude = strength * (half < size // 6)  # the fast frequencies, which tell neighbours apart
    attention.k_proj.bias[:size] = torch.cat([amplitude, torch.zeros_like(amplitude)])
    for head, distance in ((0, 1), (1, 2)):
        turned = torch.cat([amplitude * torch.cos(angle * distance), -amplitude * torch.sin(angle * distance)])
        attention.q_proj.bias[head * size : (head + 1) * size] = turned


def encode(
    tokenizer: PreTrainedTokenizerFast, demonstration: Demonstration, *, answers: bool = False
) -> tuple[list[int], list[int]]:
    """Ids and their mask: 1 on what the assistant says, its end of turn included; with `answers` also on what it is
    answered."""
    tools: list[Any] = [{"type": "function", "function": {"name": name}} for name in demonstration.tools]
    ids, mask, done = list[int](), list[int](), 0
    for index, message in enumerate(demonstration.messages):
        if message["role"] != "assistant":
            continue
        text = tokenizer.apply_chat_template(
            demonstration.messages[:index], tools=tools or None, add_generation_prompt=True, tokenize=False
        )
        said = message["content"] + tokenizer.eos_token
        for piece, bit in ((text[done:], int(answers and done > 0)), (said, 1)):
            new = tokenizer.encode(piece, add_special_tokens=False)
            ids += new
            mask += [bit] * len(new)
        done = len(text) + len(said)
    return ids, mask


def batches(
    tokenizer: PreTrainedTokenizerFast, demonstrator: Iterable[Demonstration], size: int, *, answers: bool = False
) -> Iterator[Batch]:
    """Encoded demonstrations, `size` at a time."""
    stream = (encode(tokenizer, demonstration, answers=answers) for demonstration in demonstrator)
    return iter(lambda: list(islice(stream, size)), [])


def imitate(model: Qwen2ForCausalLM, stream: Iterable[Batch], total: int) -> None:
    """Learn from `total` batches.

    Muon (Jordan et al. 2024) for the matrices of the layers and AdamW for the rest; the learning rate falls linearly to
    zero over the last half. Prints the loss at imitated tokens.
    """
    matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and "embed" not in name]
    rest = [p for name, p in model.named_parameters() if p.dim() == 1 or "embed" in name]
    optimisers = [
        torch.optim.Muon(matrices, lr=MUON_RATE, momentum=0.95, weight_decay=0.01),
        torch.optim.AdamW(rest, lr=ADAM_RATE, betas=(0.9, 0.98), weight_decay=0.0),
    ]
    model.train()
    model.set_attn_implementation("eager")  # at this size its backward pass is the faster one
    start, recent = time.time(), list[float]()
    for step, batch in enumerate(islice(stream, total)):
        left = 1 - step / total
        for optimiser, rate in zip(optimisers, (MUON_RATE, ADAM_RATE), strict=True):
            optimiser.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / 30, 2 * left)
        recent.append(_accumulate(model, batch))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad()
        if (step + 1) % 50 == 0:
            loss = sum(recent) / len(recent)
            print(f"step {step + 1}/{total}  loss {loss:.4f}  {time.time() - start:.0f} s", flush=True)
            recent.clear()


def _accumulate(model: Qwen2ForCausalLM, batch: Batch) -> float:
    """Backward through a batch in groups of similar length; returns the mean loss of imitated tokens."""
    batch = sorted(batch, key=lambda pair: len(pair[0]))
    imitated = sum(sum(mask[1:]) for _, mask in batch)
    loss_sum = 0.0
    for first in range(0, len(batch), 8):
        part = batch[first : first + 8]
        ids = _padded([ids for ids, _ in part])
        chosen = _padded([mask for _, mask in part])[:, 1:].bool()
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(input_ids=ids, use_cache=False).logits[:, :-1][chosen]
        loss = F.cross_entropy(logits.float(), ids[:, 1:][chosen], reduction="sum") / imitated
        loss.backward()
        loss_sum += float(loss.detach())
    return loss_sum


def _padded(rows: list[list[int]]) -> torch.Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
