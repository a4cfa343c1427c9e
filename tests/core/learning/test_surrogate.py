"""Losses per token against numbers by hand."""

from __future__ import annotations

import math

import pytest
import torch

from agent_r1_core.learning.surrogate import (
    cispo_surrogate,
    clipped_surrogate,
    dppo_surrogate,
    log_ratio,
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


@pytest.mark.parametrize(
    ("sampler", "policy", "advantage", "weight", "bounded"),
    [
        (0.1, 0.25, 2.0, 2.5, False),
        (0.1, 0.35, 2.0, 0.0, True),
        (0.1, 0.35, -2.0, 3.5, False),
        (0.5, 0.35, -2.0, 0.7, False),
        (0.5, 0.25, -2.0, 0.0, True),
        (0.001, 0.1, 2.0, 20.0, True),
    ],
)
def test_dppo_bounds_how_far_a_probability_moves(
    sampler: float, policy: float, advantage: float, weight: float, bounded: bool
) -> None:
    logprob = torch.tensor([math.log(policy)], requires_grad=True)
    out = dppo_surrogate(logprob, torch.tensor([math.log(sampler)]), torch.tensor([advantage]), 0.2, 0.2)
    out.loss.sum().backward()
    assert logprob.grad.item() == pytest.approx(-weight * advantage, rel=1e-5)
    assert bool(out.clipped) == bounded


def test_cispo_bounds_the_weight_of_a_token_and_says_where() -> None:
    ratios, advantage = torch.tensor([0.5, 1.1, 3.0]), torch.tensor([2.0, -1.0, 2.0])
    logprobs = torch.zeros(3, requires_grad=True)
    out = cispo_surrogate(logprobs, ratios.log(), advantage, 0.2, 0.28)
    out.loss.sum().backward()
    torch.testing.assert_close(logprobs.grad, -torch.tensor([0.8, 1.1, 1.28]) * advantage)
    assert out.clipped.tolist() == [True, False, True]


def test_absurd_ratios_stay_finite_both_ways() -> None:
    bounded = log_ratio(torch.tensor([0.0, -1e4]), torch.tensor([-1e4, 0.0]))
    torch.testing.assert_close(bounded, torch.tensor([20.0, -20.0]))
