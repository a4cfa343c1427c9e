"""Adds up what micro-batches report, so that a metric is a mean over tokens and not over micro-batches."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


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

    def values(self) -> dict[str, float]:
        """All counts, and the means with a nonzero denominator."""
        return {
            name: float(total if over is None else total / over)
            for name, (total, over) in self.sums.items()
            if over is None or float(over) > 0
        }
