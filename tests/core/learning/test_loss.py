"""What algorithms return of a micro-batch: weighted sums, and metrics over the loss tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from agent_r1_core.learning.loss import LossTerms, LossTokens, add_entropy, policy_terms, update_sums
from agent_r1_core.learning.meter import Meter
from agent_r1_core.learning.surrogate import Surrogate

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


def test_the_losses_of_micro_batches_add_up_and_their_metrics_are_means_over_loss_tokens() -> None:
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


def test_importance_weights_are_logged_over_actions_with_the_share_that_is_bounded() -> None:
    """Weights e^0.5 and 1 at the actions, and at the third token, which nobody sampled, one that does not count."""
    tokens = replace(TOKENS, advantages=torch.ones(3), sampler_logprobs=torch.tensor([-2.0, -2.0, -99.0]))
    for clip, mean, share in ((1.25, (1.25 + 1) / 2, 0.5), (1.0, 1.0, 1.0), (3.0, (2.718281828**0.5 + 1) / 2, 0.0)):
        corrected, sums = tokens.corrected(clip)
        assert float(sums["update/importance_weight"][0] / sums["update/importance_weight"][1]) == pytest.approx(mean)
        assert float(sums["update/importance_clipped"][0] / sums["update/importance_clipped"][1]) == share
        assert float(corrected.advantages[:2].mean()) == pytest.approx(mean)
        assert float(corrected.advantages[2]) == 1.0


@pytest.mark.parametrize(("coefficient", "bonus"), [(0.0, 0.0), (1.0, 0.4), (0.1, 0.04)])
def test_the_entropy_bonus_is_weighted_as_the_loss(coefficient: float, bonus: float) -> None:
    terms = add_entropy(LossTerms(torch.tensor(3.0)), TOKENS, coefficient)
    assert float(terms.loss) == pytest.approx(3 - bonus)
