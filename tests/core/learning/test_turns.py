"""Edges of credit per turn; tests/yardstick compares its formulas."""

from __future__ import annotations

import pytest
import torch

from agent_r1_core.learning.turns import sum_per_turn, turn_level_gae, turn_returns_to_go


def test_there_may_be_more_episodes_than_tokens() -> None:
    turn = torch.tensor([[0, -1], [0, 0], [-1, 0]])
    sums = sum_per_turn(torch.ones(3, 2), turn, torch.ones(3, 2, dtype=torch.bool))
    assert sums.tolist() == [[1, 0], [2, 2], [0, 1]]


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (2, 0), (2, 3)])
def test_no_turns_no_credit(shape: tuple[int, int]) -> None:
    numbers, turn = torch.ones(shape), torch.full(shape, -1)
    advantages, targets = turn_level_gae(numbers, numbers, turn, 1.0, 1.0, 1.0, 1.0)
    assert advantages.shape == targets.shape == turn_returns_to_go(numbers, turn, 1.0).shape == shape
    assert not advantages.any()
    assert not targets.any()
