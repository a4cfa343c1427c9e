"""A decoder of the Qwen2 family by its formulas, in float64, one sequence at a time: no packing, no cache, no kernels.

Full attention only. The table of rotary angles is float32, since the model defines it so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

Weights = dict[str, Tensor]
"""float64 tensors by their Hugging Face names."""


@dataclass(frozen=True)
class Shape:
    """What the weights alone do not say."""

    layers: int
    heads: int
    key_value_heads: int
    norm_eps: float
    rope_theta: float


def in_float64(weights: Mapping[str, Tensor]) -> Weights:
    """Copies that can have gradients."""
    return {name: value.detach().double().clone().requires_grad_() for name, value in weights.items()}


def hidden_states(weights: Weights, shape: Shape, ids: list[int]) -> Tensor:
    """States [len(ids), width] after the last layer and its norm."""
    states = weights["model.embed_tokens.weight"][torch.tensor(ids)]
    for layer in range(shape.layers):
        own = {name.split(f"layers.{layer}.")[1]: w for name, w in weights.items() if f"layers.{layer}." in name}
        states = states + _attention(own, shape, _norm(states, own["input_layernorm.weight"], shape.norm_eps))
        between = _norm(states, own["post_attention_layernorm.weight"], shape.norm_eps)
        gate = between @ own["mlp.gate_proj.weight"].T
        up = between @ own["mlp.up_proj.weight"].T
        states = states + (gate * torch.sigmoid(gate) * up) @ own["mlp.down_proj.weight"].T
    return _norm(states, weights["model.norm.weight"], shape.norm_eps)


def logprobs(weights: Weights, shape: Shape, ids: list[int], temperature: float) -> tuple[Tensor, Tensor]:
    """log softmax(logits / temperature) of every id but the first, given those before it, and the entropy of the
    distribution that each was drawn from; [len(ids) - 1], nats."""
    output = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    logits = hidden_states(weights, shape, ids) @ output.T / temperature
    logits = logits[:-1]
    distribution = logits - torch.log(torch.exp(logits - logits.amax(1, True)).sum(1, True)) - logits.amax(1, True)
    entropy = -(torch.exp(distribution) * distribution).sum(1)
    return torch.stack([distribution[place, ids[place + 1]] for place in range(len(ids) - 1)]), entropy


def values(weights: Weights, shape: Shape, ids: list[int]) -> Tensor:
    """The critic's value after each id, [len(ids)]."""
    return (hidden_states(weights, shape, ids) @ weights["head.weight"].T + weights["head.bias"])[:, 0]


def _norm(states: Tensor, weight: Tensor, eps: float) -> Tensor:
    return states / torch.sqrt((states**2).mean(1, True) + eps) * weight


def _attention(own: Weights, shape: Shape, states: Tensor) -> Tensor:
    tokens = states.shape[0]
    query, key, value = (
        (states @ own[f"self_attn.{part}_proj.weight"].T + own[f"self_attn.{part}_proj.bias"]).view(tokens, heads, -1)
        for part, heads in (("q", shape.heads), ("k", shape.key_value_heads), ("v", shape.key_value_heads))
    )
    query, key = _rotated(query, shape.rope_theta), _rotated(key, shape.rope_theta)
    future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    out = []
    for head in range(shape.heads):
        shared = head // (shape.heads // shape.key_value_heads)
        scores = query[:, head] @ key[:, shared].T / query.shape[2] ** 0.5
        out.append(torch.softmax(scores.masked_fill(future, float("-inf")), 1) @ value[:, shared])
    return torch.cat(out, 1) @ own["self_attn.o_proj.weight"].T


def _rotated(vectors: Tensor, theta: float) -> Tensor:
    """Rotary position embedding of [tokens, heads, width]: components i and i + width / 2 turn by one angle."""
    tokens, _, width = vectors.shape
    frequencies = 1.0 / theta ** (torch.arange(0, width, 2, dtype=torch.float32) / width)
    angles = (torch.arange(tokens, dtype=torch.float32)[:, None] * frequencies)[:, None].double()
    left, right = vectors[..., : width // 2], vectors[..., width // 2 :]
    cos, sin = torch.cos(angles), torch.sin(angles)
    return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)
