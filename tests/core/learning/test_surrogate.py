"""Losses per token against numbers by hand."""

from __future__ import annotations

import math

import pytest
import torch

from agent_r1_core.learning.surrogate import (
    cispo_surrogate,
    clipped_surrogate,
    log_ratio,
    sequence_log_ratio,
    value_loss,
)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient_flows"),
    [
        (1.0, 2.0, -2.0, True),
        (1.5, 2.0, -1.28 * 2, False),
        (0.5, 2.0, -1.0, True),
        (1.5, -2.0, 3.0, True),
        (0.5, -2.0, 0.8 * 2, False),
        (5.0, -2.0, 6.0, False),
    ],
)
def test_the_clip_is_pessimistic_and_dual(ratio: float, advantage: float, loss: float, gradient_flows: bool) -> None:
    logprob = torch.tensor([math.log(ratio)], requires_grad=True)
    out = clipped_surrogate(log_ratio(logprob, torch.zeros(1)), torch.tensor([advantage]), 0.2, 0.28, dual_clip=3.0)
    assert out.loss.item() == pytest.approx(loss, rel=1e-5)
    out.loss.sum().backward()
    assert bool(logprob.grad.abs() > 0) == gradient_flows
    assert bool(out.clipped) != gradient_flows


def test_a_token_exactly_at_the_dual_clip_is_not_cut() -> None:
    logprob = torch.zeros(1, requires_grad=True)
    out = clipped_surrogate(logprob, torch.tensor([-2.0]), 0.2, 0.28, dual_clip=1.0)
    out.loss.sum().backward()
    assert float(logprob.grad) == 2.0
    assert not out.clipped.any()


@pytest.mark.parametrize(("ratio", "weight"), [(3.0, 1.28), (0.5, 0.8), (1.1, 1.1)])
def test_cispo_keeps_the_gradient_of_clipped_tokens_and_bounds_its_weight(ratio: float, weight: float) -> None:
    logprobs = torch.tensor([math.log(ratio)], requires_grad=True)
    out = cispo_surrogate(logprobs, log_ratio(logprobs, torch.zeros(1)), torch.tensor([2.0]), 0.2, 0.28)
    out.loss.sum().backward()
    assert float(logprobs.grad) == pytest.approx(-weight * 2.0)
    assert bool(out.clipped) == (weight != ratio)


def test_the_sequence_ratio_is_the_geometric_mean_of_its_counted_tokens() -> None:
    ratios = torch.tensor([0.1, 0.3, 9.0, -0.4, 0.2, 0.7])
    counted = torch.tensor([True, True, False, True, True, True])
    sequence = torch.tensor([0, 0, 0, 1, 1, 2])
    found = sequence_log_ratio(ratios, sequence, counted)
    torch.testing.assert_close(found, torch.tensor([0.2, 0.2, 0.2, -0.1, -0.1, 0.7]))
    assert sequence_log_ratio(ratios[:0], sequence[:0], counted[:0]).shape == (0,)


def test_the_value_loss_takes_the_worse_of_free_and_clipped() -> None:
    values, old, targets = torch.tensor([2.0, 0.1]), torch.tensor([0.0, 0.0]), torch.tensor([2.0, 1.0])
    torch.testing.assert_close(value_loss(values, old, targets, None), torch.tensor([0.0, 0.405]))
    torch.testing.assert_close(value_loss(values, old, targets, 0.5), torch.tensor([0.5 * 1.5**2, 0.405]))
    fallen = value_loss(torch.tensor([-1.0]), torch.tensor([1.0]), torch.tensor([-1.0]), 0.5)
    torch.testing.assert_close(fallen, torch.tensor([0.5 * 1.5**2]))


def test_absurd_ratios_stay_finite_both_ways() -> None:
    bounded = log_ratio(torch.tensor([0.0, -1e4]), torch.tensor([-1e4, 0.0]))
    torch.testing.assert_close(bounded, torch.tensor([20.0, -20.0]))
