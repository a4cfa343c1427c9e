"""One network's AdamW step: clipped, refused when its gradient is not finite, left out when it is zero."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.meter import Meter


class Optimiser:
    """AdamW (arXiv 1711.05101) over float32 weights.

    Args:
        prefix: of its metrics, such as `update/` or `update/critic_`.
        lr: the peak learning rate.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, settings: TrainingConfig, prefix: str) -> None:
        self.parameters = list(parameters)
        self.lr = lr
        self.prefix = prefix
        self.max_grad_norm = settings.max_grad_norm
        self.adamw = torch.optim.AdamW(
            self.parameters,
            lr=lr,
            betas=settings.betas,
            eps=settings.adam_eps,
            weight_decay=settings.weight_decay,
            fused=True,
        )

    def clear(self) -> None:
        """Forget the gradients."""
        self.adamw.zero_grad(set_to_none=True)

    def step(self, factor: float, meter: Meter) -> None:
        """Move the weights by the gradients that have been added up, at `lr * factor`.

        A gradient that is not finite takes no step: it would destroy the weights. Neither does one of zero: there
        momentum alone would move them, without any evidence.
        """
        bound = self.max_grad_norm if self.max_grad_norm > 0 else float("inf")
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, bound))
        finite = math.isfinite(norm)
        taken = finite and norm > 0
        if taken:
            for group in self.adamw.param_groups:
                group["lr"] = self.lr * factor
            self.adamw.step()
            meter.add(f"{self.prefix}grad_norm", norm, 1.0)
        meter.add(f"{self.prefix}lr", self.lr * factor, 1.0)
        meter.count(f"{self.prefix}steps", float(taken))
        meter.count(f"{self.prefix}skipped_nonfinite", float(not finite))
        meter.count(f"{self.prefix}skipped_zero", float(finite and norm == 0))
        self.clear()

    def state_dict(self) -> dict[str, Any]:
        """Moments and counts."""
        return self.adamw.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what `state_dict` gave."""
        self.adamw.load_state_dict(state)
