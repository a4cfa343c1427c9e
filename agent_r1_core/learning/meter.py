"""Adds up what micro-batches report, so that a metric is a mean over tokens and not over micro-batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import torch
from torch import Tensor

from agent_r1_core.devices import floats
from agent_r1_core.learning.ranks import Ranks
from agent_r1_core.metrics import declared as metric

Sum = tuple[Tensor, Tensor]
"""A metric of a micro-batch: its sum and the number of tokens that it sums over, scalars."""


def gap_sums(logprobs: Tensor, sampler_logprobs: Tensor) -> dict[str, Sum]:
    """|difference| between learner and engine at the same tokens, [k] each, of log-probs (nats) and of probabilities
    (LAW 2)."""
    count = torch.tensor(logprobs.numel())
    return {
        metric.LOGPROB_GAP: ((logprobs - sampler_logprobs).abs().double().sum(), count),
        metric.PROB_GAP: ((logprobs.exp() - sampler_logprobs.exp()).abs().double().sum(), count),
    }


def detached(sums: Mapping[str, Sum]) -> dict[str, Sum]:
    """The same numbers without the graph that they come from."""
    return {name: (torch.as_tensor(total).detach(), torch.as_tensor(over)) for name, (total, over) in sums.items()}


def gathered(sums: Sequence[Mapping[str, Sum]], ranks: Ranks) -> Sequence[Mapping[str, Sum]]:
    """What the micro-batches of all ranks report, in the order of the ranks, given those of this one."""
    if ranks.size == 1:
        return sums
    own = [{name: (total.cpu(), over.cpu()) for name, (total, over) in one.items()} for one in sums]
    return list(chain.from_iterable(ranks.gather(own)))


@dataclass
class Meter:
    """Means and counts by name; nothing waits for a device before `values`."""

    sums: dict[str, tuple[Tensor, Tensor | None]] = field(default_factory=dict)
    """The sum so far, and of a mean what it is over."""

    def add(self, name: str, total: Tensor | float, over: Tensor | float | None = None) -> None:
        """Add to a mean a sum over `over` tokens, trajectories or updates; without `over`, add to a count."""
        value = torch.as_tensor(total, dtype=torch.float64).detach()
        weight = None if over is None else torch.as_tensor(over, dtype=torch.float64).detach()
        if name in self.sums:
            value_before, weight_before = self.sums[name]
            value = value_before + value
            weight = None if weight is None or weight_before is None else weight_before + weight
        self.sums[name] = value, weight

    def add_all(self, sums: Mapping[str, Sum]) -> None:
        for name, (total, over) in sums.items():
            self.add(name, total, over)

    def values(self) -> dict[str, float]:
        """All counts, and the means with a nonzero denominator."""
        one = torch.ones(())
        pairs = [(total, one if over is None else over) for total, over in self.sums.values()]
        numbers = iter(floats([scalar for pair in pairs for scalar in pair]))
        return {name: total / over for name, total, over in zip(self.sums, numbers, numbers, strict=True) if over > 0}
