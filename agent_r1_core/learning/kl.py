"""Estimators of KL(policy || reference) per sampled token (Schulman, "Approximating KL Divergence", 2020).

With d = log policy - log reference at a token that the policy sampled: k1 = d (unbiased, high variance), k2 = d^2 / 2
(biased), k3 = exp(-d) - 1 + d (unbiased, never negative).

A good estimate is not a good loss: the expected gradient of an estimator is not that of what it estimates. At tokens
that the policy itself sampled, the gradient of k1 is zero in expectation, that of k2 is the gradient of
KL(policy || reference), and that of k3, GRPO's choice, is the gradient of the KL the other way round,
KL(reference || policy). Both hold in the first pass alone: later ones learn from tokens that an older policy sampled.
With the importance ratio rho = policy / policy that sampled as a factor, k2 (rho detached) and k3 (rho with gradient,
DeepSeek-V3.2, arXiv 2512.02556) both have the gradient of KL(policy || reference) in expectation, in every pass. Where
rollouts run ahead, the part of rho that is older than the update is a truncated weight, which leaves a bias.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

KlEstimator = Literal["k1", "k2", "k3"]
LossKlEstimator = Literal["k2", "k3"]
_LIMIT = 20.0


def kl_estimate(logprobs: Tensor, reference: Tensor, estimator: KlEstimator) -> Tensor:
    """The estimate at each token, nats, same shape; for metrics and for rewards."""
    difference = logprobs - reference
    if estimator == "k1":
        return difference
    if estimator == "k2":
        return 0.5 * difference**2
    return torch.exp((-difference).clamp(max=_LIMIT)) - 1 + difference


def kl_loss(logprobs: Tensor, reference: Tensor, estimator: LossKlEstimator, ratio: Tensor | None = None) -> Tensor:
    """The estimate as a loss term.

    Args:
        ratio: policy / policy that sampled at each token, with gradient; makes the expected gradient that of the KL.

    Raises:
        ValueError: another estimator. The gradient of k1 is zero in expectation: it would only add noise.
    """
    if estimator not in ("k2", "k3"):
        raise ValueError(f"{estimator} is no loss: the expected gradient of k1 is zero; choose k2 or k3")
    estimate = kl_estimate(logprobs, reference, estimator)
    if ratio is None:
        return estimate
    return estimate * (ratio.detach() if estimator == "k2" else ratio)
