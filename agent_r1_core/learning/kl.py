"""Estimators of KL(policy || reference) per sampled token (Schulman, "Approximating KL Divergence", 2020).

With d = log policy - log reference at a token that the policy sampled: k1 = d (unbiased, high variance), k2 = d^2 / 2
(biased, its gradient is that of the KL), k3 = exp(-d) - 1 + d (unbiased, never negative).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

KlEstimator = Literal["k1", "k2", "k3"]
K1_REFUSED = "k1 as a loss has a gradient of expectation zero; choose k2 or k3"
_LIMIT = 20.0


def kl_estimate(logprobs: Tensor, reference: Tensor, estimator: KlEstimator) -> Tensor:
    """The estimate at each token, nats, same shape; for metrics and for rewards."""
    difference = logprobs - reference
    if estimator == "k1":
        return difference
    if estimator == "k2":
        return 0.5 * difference**2
    return torch.exp((-difference).clamp(max=_LIMIT)) - 1 + difference


def kl_loss(logprobs: Tensor, reference: Tensor, estimator: KlEstimator) -> Tensor:
    """The estimate as a loss term.

    Raises:
        ValueError: k1, whose gradient E[grad log policy] is zero: it would only add noise.
    """
    if estimator == "k1":
        raise ValueError(K1_REFUSED)
    return kl_estimate(logprobs, reference, estimator)
