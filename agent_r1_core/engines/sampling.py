"""Sampling from logits with a stream of random numbers per request, and exact log-probs.

A sample depends only on its request's seed and position, not on the other rows (LAW 11), up to rounding of the logits:
a matrix product of another height may round differently, which matters only where a random number falls within about
1e-7 of a boundary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from agent_r1_core.contracts.engine import Request
from agent_r1_core.devices import on_device

_BLOCK, _SMALL = 128, 4096
"""Ids of a block; largest vocabulary that is searched as a whole."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(values: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014) on uint64."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def uniforms(seeds: Sequence[int], positions: Sequence[int]) -> np.ndarray:
    """Random numbers in (0, 1), float64 [rows]: per row, number `position` of the stream of `seed` (SplitMix64)."""
    low_bits = (1 << 64) - 1
    with np.errstate(over="ignore"):
        start = _mix(np.array([seed & low_bits for seed in seeds], dtype=np.uint64) + _GOLDEN)
        state = start + _GOLDEN * (np.array(positions, dtype=np.uint64) + np.uint64(1))
        return ((_mix(state) >> np.uint64(16)).astype(np.float64) + 0.5) * 2.0**-48


def keep_likely(probabilities: Tensor, top_k: int, top_p: float) -> Tensor:
    """Zero the ids that top-k, then top-p among the rest, exclude; `probabilities` is one distribution [vocabulary].

    Top-p keeps the smallest set of likeliest ids whose share reaches `top_p`, and at least one
    (nucleus sampling, arXiv 1904.09751).
    """
    ordered, order = probabilities.sort(descending=True, stable=True)
    if top_k > 0:
        ordered = ordered.clone()
        ordered[top_k:] = 0
    before = ordered.cumsum(0, dtype=torch.float64) - ordered
    ordered = torch.where(before < top_p * ordered.sum(dtype=torch.float64), ordered, 0)
    return torch.zeros_like(probabilities).scatter(0, order, ordered)


def choose(logits: Tensor, requests: Sequence[Request], positions: Sequence[int]) -> tuple[list[int], list[float]]:
    """Choose one id per row.

    Args:
        logits: [rows, vocabulary], any float dtype.
        requests: the sampling options and seed of each row.
        positions: how many ids each row has sampled so far.

    Returns:
        The ids, and their log-probs in nats: log softmax(logits / temperature) in float32, before top-k and top-p;
        at temperature 0 the likeliest id and its log-prob at temperature 1.
    """
    logits = logits.float()
    temperatures = [request.sampling.temperature for request in requests]
    if any(temperature not in (0.0, 1.0) for temperature in temperatures):
        divisors = torch.tensor([temperature or 1.0 for temperature in temperatures])
        logits = logits / on_device(divisors, logits.device)[:, None]
    probabilities = logits.softmax(-1)
    total = probabilities.sum(-1)  # 1 but for rounding: softmax adds up a large vocabulary less exactly
    greedy = [temperature == 0.0 for temperature in temperatures]
    if all(greedy):
        chosen = logits.argmax(-1)
    else:
        chosen = _draw(probabilities, requests, positions)
        if any(greedy):
            chosen = torch.where(on_device(torch.tensor(greedy), logits.device), logits.argmax(-1), chosen)
    logprobs = (probabilities.gather(1, chosen[:, None])[:, 0] / total).log()
    ids, numbers = torch.stack([chosen.double(), logprobs.double()]).tolist()  # one copy from the device
    return [int(one) for one in ids], numbers


def _draw(probabilities: Tensor, requests: Sequence[Request], positions: Sequence[int]) -> Tensor:
    """Ids [rows] by inversion of the cumulative distribution, summed in float64: in a large vocabulary first of blocks
    of ids, then within one block."""
    for row, request in enumerate(requests):
        sampling = request.sampling
        if sampling.top_k > 0 or sampling.top_p < 1.0:
            probabilities[row] = keep_likely(probabilities[row], sampling.top_k, sampling.top_p)
    drawn = torch.from_numpy(uniforms([request.seed for request in requests], positions))
    numbers = on_device(drawn, probabilities.device)
    rows, vocabulary = probabilities.shape
    if vocabulary <= _SMALL:
        return _invert(probabilities.double(), numbers)[0]
    short = -vocabulary % _BLOCK
    blocks = (pad(probabilities, (0, short)) if short else probabilities).view(rows, -1, _BLOCK)
    block, rest = _invert(blocks.sum(-1).double(), numbers)
    place, _ = _invert(blocks[torch.arange(rows, device=block.device), block].double(), rest)
    return (block * _BLOCK + place).clamp_(max=vocabulary - 1)


def _invert(weights: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """For numbers [rows] in [0, 1): where the cumulative sum of the weights [rows, n] passes that share of their total,
    and which share of the weight there is below it, again in [0, 1)."""
    cumulative = weights.cumsum(-1)
    targets = numbers[:, None] * cumulative[:, -1:]
    places = torch.searchsorted(cumulative, targets, right=True).clamp_(max=weights.shape[1] - 1)
    own = weights.gather(1, places)
    below = targets - (cumulative.gather(1, places) - own)
    return places[:, 0], (below / own).clamp_(0.0, 1.0 - 2.0**-48)[:, 0]
