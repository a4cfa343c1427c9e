"""Group baselines against the standard library's statistics."""

from __future__ import annotations

import statistics

import pytest
import torch

from agent_r1_core.learning.groups import (
    group_mean_advantage,
    group_normalised_advantage,
    group_statistics,
    leave_one_out_advantage,
)

RETURNS = [1.0, 0.0, 0.5, 0.25, 1.0, 0.7, 0.7, 3.0]
GROUP = [0, 0, 1, 0, 1, 2, 2, 3]


def members(i: int) -> list[float]:
    return [r for r, g in zip(RETURNS, GROUP, strict=True) if g == GROUP[i]]


def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(RETURNS), torch.tensor(GROUP)


@pytest.mark.parametrize("eps", [1e-6, 0.5])
def test_normalised_advantages_use_the_sample_deviation(eps: float) -> None:
    found = group_normalised_advantage(*tensors(), eps=eps)
    for i in range(5):
        others = members(i)
        expected = (RETURNS[i] - statistics.mean(others)) / (statistics.stdev(others) + eps)
        assert float(found[i]) == pytest.approx(expected, rel=1e-5)


def test_leave_one_out_compares_with_the_mean_of_the_others() -> None:
    found = leave_one_out_advantage(*tensors())
    for i in range(5):
        others = members(i)
        others.remove(RETURNS[i])
        assert float(found[i]) == pytest.approx(RETURNS[i] - statistics.mean(others), rel=1e-5)


@pytest.mark.parametrize("advantage", [group_mean_advantage, leave_one_out_advantage])
def test_a_group_without_spread_and_a_group_of_one_have_no_advantage(advantage) -> None:
    found = advantage(*tensors())
    assert found[5:].tolist() == [0.0, 0.0, 0.0]
    assert found[:5].abs().min() > 0


@pytest.mark.parametrize("value", [0.1, -0.1])
def test_equal_returns_give_exactly_zero_even_with_eps_zero(value: float) -> None:
    returns, group = torch.tensor([value] * 3), torch.zeros(3, dtype=torch.long)
    assert group_normalised_advantage(returns, group, eps=0.0).tolist() == [0.0] * 3


def test_statistics_are_those_of_the_own_group() -> None:
    found = group_statistics(*tensors())
    assert found.size.tolist() == [3, 3, 2, 3, 2, 2, 2, 1]
    assert found.informative.tolist() == [True] * 5 + [False] * 3
    assert float(found.std[7]) == 0.0


def test_mean_advantages_of_a_group_sum_to_zero() -> None:
    returns, group = tensors()
    sums = torch.zeros(4).index_add(0, group, group_mean_advantage(returns, group))
    assert sums.abs().max() < 1e-6


def test_no_trajectories_no_advantages() -> None:
    assert group_mean_advantage(torch.zeros(0), torch.zeros(0, dtype=torch.long)).shape == (0,)
