"""What algorithms return of a micro-batch: losses per token against numbers by hand, weighted sums, and metrics over
loss tokens; the corrected KL loss against the KL of two small distributions; which actions a mask against a mismatch
leaves out. tests/yardstick compares the formulas."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.kl import LossKlEstimator, kl_estimate, kl_loss
from agent_r1_core.learning.loss import (
    Correction,
    LossTerms,
    LossTokens,
    add_kl,
    observation_loss,
    policy_terms,
    update_sums,
)
from agent_r1_core.learning.meter import Meter
from agent_r1_core.learning.mismatch import mismatched
from agent_r1_core.learning.surrogate import Surrogate, cispo_surrogate, clipped_surrogate, dppo_surrogate, log_ratio
from agent_r1_core.metrics import declared as metric

TOKENS = LossTokens(
    logprobs=torch.tensor([-1.0, -2.0, -3.0]),
    old_logprobs=torch.tensor([-1.5, -2.0, -9.0]),
    sampler_logprobs=torch.tensor([-1.5, -2.0, -9.0]),
    advantages=torch.tensor([1.0, -1.0, 0.0]),
    weights=torch.tensor([0.5, 0.25, 0.0]),
    sequence=torch.tensor([0, 0, 0]),
    turn=torch.tensor([0, 0, -1]),
    entropy=torch.tensor([0.4, 0.8, 100.0]),
)
"""Two tokens of the loss, and one that only the critic learns from."""


def metrics_of(*terms: LossTerms) -> dict[str, float]:
    """The metrics of an update of two optimiser steps, with these terms as its micro-batches."""
    meter = Meter()
    for one in terms:
        meter.add_all(update_sums(one, TOKENS))
    meter.add("update/loss", 0.0, 2.0)
    return meter.values()


def test_the_losses_of_micro_batches_add_up_and_their_metrics_are_means_over_loss_tokens_or_observations() -> None:
    logprobs = torch.tensor([-1.0, -2.0, -4.0])
    loss, sums = observation_loss(logprobs, torch.tensor([0.0, 0.5, 0.25]))
    assert (float(loss), *map(float, sums["update/observation_loss"])) == (2.0, 6.0, 2)
    surrogate = Surrogate(
        loss=torch.tensor([2.0, 4.0, 100.0]),
        clipped=torch.tensor([True, False, True]),
        ratio=torch.tensor([1.5, 1.0, 100.0]),
    )
    terms = policy_terms(TOKENS, surrogate)
    metrics = metrics_of(terms, replace(terms, loss=torch.tensor(1.0)))
    assert metrics["update/loss"] == pytest.approx((0.5 * 2 + 0.25 * 4 + 1) / 2)
    assert metrics["update/clip_fraction"] == 0.5
    assert metrics["update/ratio"] == 1.25
    assert metrics["update/kl_step"] == pytest.approx((2.718281828**0.5 - 1 - 0.5) / 2)


def test_the_kl_of_a_step_is_that_from_the_old_policy_whoever_sampled() -> None:
    """In expectation over the policy that sampled, every token weighed by how much likelier the old one made it."""
    policy, old, sampler = (
        torch.log_softmax(torch.tensor(logits), 0) for logits in ([0.3, -0.2, 1.0], [0.1, 0.2, 0.9], [1.0, 0.0, -1.0])
    )
    nothing, at = torch.zeros(3), torch.arange(3)
    tokens = LossTokens(policy, old, sampler, nothing, torch.ones(3), at, at, nothing)
    weighed, _ = Correction(TrainingConfig(importance_clip=100.0)).corrected(tokens)
    alone = [replace(weighed, weights=(at == place).float()) for place in range(3)]
    each = [update_sums(LossTerms(nothing.sum()), one)["update/kl_step"][0] for one in alone]
    found = (sampler.exp() * torch.stack(each)).sum()
    torch.testing.assert_close(found, (old.exp() * (old - policy)).sum())


def test_the_kl_to_the_reference_is_logged_over_loss_tokens_and_weighed_as_in_the_loss() -> None:
    """Of the third token, which is in no loss of the policy, nothing is counted."""
    tokens = replace(TOKENS, reference_logprobs=torch.tensor([-1.2, -2.3, 50.0]))
    weighed = replace(tokens, importance=torch.tensor([0.5, 2.0, 7.0]))
    k2 = [0.5 * (-1.0 + 1.2) ** 2, 0.5 * (-2.0 + 2.3) ** 2]
    ratios = [2.718281828**0.5, 1.0]
    cases = (
        (tokens, False, sum(k2) / 2),
        (tokens, True, (ratios[0] * k2[0] + k2[1]) / 2),
        (weighed, True, (0.5 * ratios[0] * k2[0] + 2.0 * k2[1]) / 2),
    )
    for chosen, correction, expected in cases:
        terms = add_kl(LossTerms(torch.zeros(())), chosen, 0.1, "k2", correction)
        total, count = terms.metrics["kl_reference"]
        assert float(total / count) == pytest.approx(expected, rel=1e-5)


def test_importance_weights_are_logged_over_actions_with_the_share_that_is_bounded() -> None:
    """Weights e^0.5 and 1 at the actions, and at the third token, which nobody sampled, one that does not count."""
    tokens = replace(TOKENS, advantages=torch.ones(3), sampler_logprobs=torch.tensor([-2.0, -2.0, -99.0]))
    for clip, mean, share in ((1.25, (1.25 + 1) / 2, 0.5), (1.0, 1.0, 1.0), (3.0, (2.718281828**0.5 + 1) / 2, 0.0)):
        corrected, sums = Correction(TrainingConfig(importance_clip=clip)).corrected(tokens)
        assert float(sums["update/importance_weight"][0] / sums["update/importance_weight"][1]) == pytest.approx(mean)
        assert float(sums["update/importance_clipped"][0] / sums["update/importance_clipped"][1]) == share
        assert float(corrected.advantages[:2].mean()) == pytest.approx(mean)
        assert float(corrected.advantages[2]) == 1.0


def test_bounds_are_told_where_they_act_and_no_ratio_overflows() -> None:
    """Of a clip that is pessimistic and dual, whose bounded tokens have no gradient; of DPPO's, on how far a
    probability moves; and of CISPO's, on the weight of a token."""
    logprobs = torch.tensor([1.0, 1.5, 0.5, 1.5, 0.5, 5.0]).log().requires_grad_()
    advantages = torch.tensor([2.0, 2.0, 2.0, -2.0, -2.0, -2.0])
    clipped = clipped_surrogate(log_ratio(logprobs, torch.zeros(6)), advantages, 0.2, 0.28, dual_clip=3.0)
    torch.testing.assert_close(clipped.loss, torch.tensor([-2.0, -1.28 * 2, -1.0, 3.0, 0.8 * 2, 6.0]))
    clipped.loss.sum().backward()
    assert clipped.clipped.tolist() == (logprobs.grad == 0).tolist() == [False, True, False, False, True, True]

    logprobs = torch.tensor([0.25, 0.35, 0.35, 0.35, 0.25, 0.1]).log().requires_grad_()
    advantages = torch.tensor([2.0, 2.0, -2.0, -2.0, -2.0, 2.0])
    dppo = dppo_surrogate(logprobs, torch.tensor([0.1, 0.1, 0.1, 0.5, 0.5, 0.001]).log(), advantages, 0.2, 0.2)
    dppo.loss.sum().backward()
    torch.testing.assert_close(logprobs.grad, -torch.tensor([2.5, 0.0, 3.5, 0.7, 0.0, 20.0]) * advantages)
    assert dppo.clipped.tolist() == [False, True, False, False, True, True]

    logprobs, advantages = torch.zeros(3, requires_grad=True), torch.tensor([2.0, -1.0, 2.0])
    cispo = cispo_surrogate(logprobs, torch.tensor([0.5, 1.1, 3.0]).log(), advantages, 0.2, 0.28)
    cispo.loss.sum().backward()
    torch.testing.assert_close(logprobs.grad, -torch.tensor([0.8, 1.1, 1.28]) * advantages)
    assert cispo.clipped.tolist() == [True, False, True]

    bounded = log_ratio(torch.tensor([0.0, -1e4]), torch.tensor([-1e4, 0.0]))
    torch.testing.assert_close(bounded, torch.tensor([20.0, -20.0]))
    assert torch.isfinite(kl_estimate(torch.tensor([-500.0]), torch.tensor([0.0]), "k3")).all()


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
    with pytest.raises(ValueError, match="k2 or k3"):
        kl_loss(policy, REFERENCE, "k1")  # type: ignore[arg-type]


SEGMENT = torch.tensor([0, 0, 0, 1, 1, 2, 3])
ACTION = torch.tensor([0, 1, 1, 0, 0, 1, 1], dtype=torch.bool)
"""Segments of two actions, of none, of one, and of one."""


@pytest.mark.parametrize(
    ("mask", "ratios", "left_out"),
    [
        ("icepop", [1, 0.5, 0.49, 1, 1, 5, 5.1], [2, 6]),
        ("icepop", [1, 0.4, 0.4, 1, 1, 1, 1], [1, 2]),
        ("sequence", [1, 1.5, 2.1, 1, 1, 2.9, 0.01], [1, 2]),
        ("geometric", [1, 0.9, 1.12, 1, 1, 1.02, 1.005], [5]),
        ("off_policy", [1, 0.5, 0.5, 1, 1, 0.5, 9], [5]),
    ],
)
def test_the_bounds_of_a_ratio_and_the_shares_of_actions_and_segments(
    mask: str, ratios: list[float], left_out: list[int]
) -> None:
    """Bounds are kept; off_policy leaves out no action that earned something, such as those of the first segment."""
    moved = torch.tensor([math.log(ratio) for ratio in ratios])
    earned = torch.tensor([0.0, 1, 1, 0, 0, -1, -1])
    found, logged = mismatched(TrainingConfig(mismatch_mask=mask), moved, SEGMENT, ACTION, earned)
    assert found.nonzero().flatten().tolist() == left_out
    shares = {name: float(total / count) for name, (total, count) in logged.items()}
    segments = {int(SEGMENT[place]) for place in left_out}
    assert shares == {
        metric.UPDATE_MISMATCH_MASKED: pytest.approx(len(left_out) / 4),
        metric.UPDATE_MISMATCH_SEGMENTS: pytest.approx(len(segments) / 3),
    }
