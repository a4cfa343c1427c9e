"""Sampling from logits with a stream of random numbers per request, and exact log-probs.

A sample depends only on its request's seed and position, not on the other rows (LAW 11), up to rounding of the logits:
a matrix product of another height may round differently, which matters only where a random number falls within about
1e-7 of a boundary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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


class Draws(NamedTuple):
    """How the next id of each row is chosen."""

    numbers: Tensor
    """float64 [rows, 3] on the CPU: a random number in (0, 1), the temperature or 1, and 1 where it is 0."""
    scaled: bool
    """Whether any temperature is neither 0 nor 1."""
    greedy: bool | None
    """Whether all rows take the likeliest id; None: some do."""
    limits: tuple[tuple[int, int, float], ...]
    """Rows with a top-k or a top-p, and both."""


def draws(requests: Sequence[Request], positions: Sequence[int]) -> Draws:
    """What `sample` needs to know of requests that have sampled so many ids."""
    rows, temperatures = len(requests), [request.sampling.temperature for request in requests]
    zeros, ones = temperatures.count(0.0), temperatures.count(1.0)
    numbers = np.tile((0.5, 1.0, 0.0), (rows, 1))
    numbers[:, 0] = uniforms([request.seed for request in requests], positions)
    if ones < rows:
        numbers[:, 1:] = [(temperature or 1.0, temperature == 0.0) for temperature in temperatures]
    options = enumerate(request.sampling for request in requests)
    return Draws(
        numbers=torch.from_numpy(numbers),
        scaled=zeros + ones < rows,
        greedy=None if 0 < zeros < rows else zeros > 0,
        limits=tuple((row, one.top_k, one.top_p) for row, one in options if one.top_k > 0 or one.top_p < 1.0),
    )


def sample(logits: Tensor, how: Draws, numbers: Tensor | None = None) -> Tensor:
    """Choose one id per row, where the logits are.

    Args:
        logits: [rows, vocabulary], any float dtype.
        how: what `draws` says of the rows.
        numbers: `how.numbers` where the logits are, as a recorded step has them; None: they are copied there.

    Returns:
        float64 [rows, 2]: ids and their log-probs, as `choose` describes them.
    """
    numbers = on_device(how.numbers, logits.device) if numbers is None else numbers
    logits = logits.float()
    if how.scaled:
        logits = logits / numbers[:, 1:2].float()
    probabilities = logits.softmax(-1)
    total = probabilities.sum(-1)  # 1 but for rounding: softmax adds up a large vocabulary less exactly
    if how.greedy:
        chosen = logits.argmax(-1)
    else:
        for row, top_k, top_p in how.limits:
            probabilities[row] = keep_likely(probabilities[row], top_k, top_p)
        chosen = _draw(probabilities, numbers[:, 0])
        if how.greedy is None:
            chosen = torch.where(numbers[:, 2] > 0, logits.argmax(-1), chosen)
    logprobs = (probabilities.gather(1, chosen[:, None])[:, 0] / total).log()
    return torch.stack([chosen.double(), logprobs.double()], 1)


def told(sampled: Tensor) -> tuple[list[int], list[float]]:
    """Ids and log-probs of what `sample` returns; one copy from its device."""
    rows = sampled.tolist()
    return [int(token) for token, _ in rows], [logprob for _, logprob in rows]


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
    return told(sample(logits, draws(requests, positions)))


def _draw(probabilities: Tensor, numbers: Tensor) -> Tensor:
    """Ids [rows] by inversion of the cumulative distribution, summed in float64: in a large vocabulary first of blocks
    of ids, then within one block."""
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
