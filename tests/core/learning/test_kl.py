"""The corrected KL loss against the KL of two small distributions; tests/yardstick compares the estimators."""

from __future__ import annotations

import pytest
import torch

from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.kl import LossKlEstimator, kl_estimate, kl_loss
from agent_r1_core.learning.loss import Correction, LossTerms, LossTokens, add_kl

LOGITS = torch.tensor([0.3, -0.2, 1.0, 0.1])
REFERENCE = torch.log_softmax(torch.tensor([0.1, 0.2, 0.9, -0.3]), 0)


@pytest.mark.parametrize("estimator", ["k2", "k3"])
@pytest.mark.parametrize("bound", [1e6, 1.1])
def test_the_expected_gradient_of_the_corrected_loss_is_that_of_the_kl_whichever_policy_sampled(
    estimator: LossKlEstimator, bound: float
) -> None:
    """Three policies: the one that sampled, the one before the update, and the one that learns; what the bound of the
    weights cuts off is the only bias."""
    logits = LOGITS.clone().requires_grad_()
    policy = torch.log_softmax(logits, 0)
    old, sampler = (torch.log_softmax(LOGITS + torch.tensor(moved), 0) for moved in ([0.3, 0, -0.2, 0], [0, 0.5, 0, 1]))
    kl = torch.autograd.grad((policy.exp() * (policy - REFERENCE)).sum(), logits, retain_graph=True)[0]
    tokens = LossTokens(
        policy, old, sampler, torch.zeros(4), sampler.exp(), torch.arange(4), torch.zeros(4), torch.zeros(4), REFERENCE
    )
    corrected, _ = Correction(TrainingConfig(importance_clip=bound)).corrected(tokens)
    loss = add_kl(LossTerms(torch.zeros(())), corrected, 1.0, estimator, correction=True).loss
    bias = (torch.autograd.grad(loss, logits)[0] - kl).abs().max()
    assert bias < 1e-6 if bound > 2 else bias > 1e-3


def test_k1_as_a_loss_is_refused_since_its_expected_gradient_is_zero() -> None:
    with pytest.raises(ValueError, match="k2 or k3"):
        kl_loss(LOGITS, REFERENCE, "k1")  # type: ignore[arg-type]


def test_a_distant_reference_does_not_overflow() -> None:
    far = kl_estimate(torch.tensor([-500.0]), torch.tensor([0.0]), "k3")
    assert torch.isfinite(far).all()
