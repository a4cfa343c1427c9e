"""Statistics over the tokens that a mask counts; the others are never read, not even when they are not numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from agent_r1_core.trajectory import differ


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of `values` where `mask` is true, as a scalar; 0 for an empty mask."""
    chosen = values[mask]
    return chosen.mean() if chosen.numel() else values.new_zeros(())


def whiten(values: Tensor, mask: Tensor, eps: float = 1e-8, shift: bool = True) -> Tensor:
    """(x - mean) / sqrt(variance + eps) over the counted tokens, 0 elsewhere; the variance is that with n - 1.

    Without spread (one token, or all equal but for rounding) there is nothing to tell good from bad: all zeros, no
    rounding noise blown up. Statistics are taken in float64, so that their order does not matter.

    Args:
        values: any shape.
        mask: bool, same shape.
        shift: False: x / sqrt(variance + eps), so that 0 stays 0.
    """
    out = torch.zeros_like(values)
    chosen = values[mask].double()
    if chosen.numel() > 1 and differ(float(chosen.min()), float(chosen.max())):
        centre = chosen.mean() if shift else 0.0
        out[mask] = ((chosen - centre) / torch.sqrt(chosen.var() + eps)).to(values.dtype)
    return out


def explained_variance(values: Tensor, targets: Tensor, mask: Tensor) -> float:
    """1 - Var(target - value) / Var(target) over the counted tokens: 1 a perfect critic, 0 a constant; 0 where targets
    do not vary, or by rounding alone."""
    chosen, predicted = targets[mask].double(), values[mask].double()
    if chosen.numel() < 2 or not differ(float(chosen.min()), float(chosen.max())):
        return 0.0
    return float(1 - (chosen - predicted).var() / chosen.var())


def compact(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Where each row's counted tokens stand, moved to the left.

    Args:
        mask: bool [n, T].

    Returns:
        `index` long [n, K], K the longest row: columns of the row's counted tokens in their order, then of others;
        `present` bool [n, K]: which entries of `index` are counted tokens.
    """
    counts = mask.sum(1)
    longest = int(counts.max()) if mask.shape[0] else 0
    index = torch.argsort(mask.logical_not().to(torch.uint8), dim=1, stable=True)[:, :longest]
    present = torch.arange(longest, device=mask.device)[None, :] < counts[:, None]
    return index, present
