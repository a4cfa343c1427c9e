"""Adds up what micro-batches report, so that a metric is a mean over tokens and not over micro-batches."""

from __future__ import annotations

import torch
from torch import Tensor


class Meter:
    """Means and counts by name; nothing waits for a device before `values`."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[Tensor, Tensor]] = {}
        self._counts: dict[str, float] = {}

    def has(self, name: str) -> bool:
        """Whether anything was added to that mean."""
        return name in self._sums

    def add(self, name: str, total: Tensor | float, over: Tensor | float) -> None:
        """Add to a mean: a sum over `over` tokens, trajectories or updates."""
        more = _scalar(total), _scalar(over)
        before = self._sums.get(name)
        self._sums[name] = more if before is None else (before[0] + more[0], before[1] + more[1])

    def count(self, name: str, times: float) -> None:
        """Add to a count."""
        self._counts[name] = self._counts.get(name, 0.0) + times

    def values(self) -> dict[str, float]:
        """All counts, and the means with a nonzero denominator."""
        means = {name: float(total / over) for name, (total, over) in self._sums.items() if float(over) > 0}
        return means | self._counts


def _scalar(value: Tensor | float) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float64).detach()
