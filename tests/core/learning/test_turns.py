"""Credit per turn against plain loops, on turns of any length, with and without rewards."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from agent_r1_core.learning.turns import sum_per_turn, turn_borders, turn_level_gae, turn_returns_to_go

TURN = [
    [-1, 0, 0, -1, 1, 2, 2, 2, -1],
    [-1, -1, 0, -1, -1, 2, 2, -1, -1],  # turn 1 had no action token
    [-1, 0, -1, 0, 0, -1, -1, 1, 1],  # an environment token inside an action
    [-1] * 9,
]


def a_batch(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rewards, values = torch.randn(2, 4, 9, generator=generator)
    return rewards, values, torch.tensor(TURN), torch.randn(4, generator=generator)


def turns_of(row: int) -> list[list[int]]:
    """Columns of the action tokens of each turn of a row."""
    return [[t for t, index in enumerate(TURN[row]) if index == turn] for turn in sorted({*TURN[row]} - {-1})]


def test_where_in_a_turn_its_value_is_read_makes_no_difference_with_lam_turn_1() -> None:
    """RAGEN reads it at the last token: with other values at first tokens, the last ones have the same targets."""
    rewards, values, turn, bootstrap = a_batch()
    first, last = turn_borders(turn)
    for lam_turn, same in ((1.0, True), (0.7, False)):
        options = (0.9, 0.8, 0.95, lam_turn, bootstrap)
        _, targets = turn_level_gae(rewards, values, turn, *options)
        _, moved = turn_level_gae(rewards, values + 3.0 * first, turn, *options)
        assert torch.allclose(targets[last], moved[last], atol=1e-5) is same


def test_bi_level_gae_is_the_naive_loop() -> None:
    for seed, (gamma, lam, gamma_turn, lam_turn) in enumerate([(1, 1, 0.95, 1), (0.9, 0.8, 0.7, 0.6), (1, 0, 1, 0)]):
        rewards, values, turn, bootstrap = a_batch(seed)
        advantages, targets = turn_level_gae(rewards, values, turn, gamma, lam, gamma_turn, lam_turn, bootstrap)
        expected = torch.zeros_like(values)
        for row in range(len(TURN)):
            following, of_turn = float(bootstrap[row]), 0.0
            for tokens in reversed(turns_of(row)):
                first = float(values[row, tokens[0]])
                error = float(rewards[row, tokens].sum()) + gamma_turn * following - first
                of_turn, following = error + gamma_turn * lam_turn * of_turn, first
                reward, after, advantage = of_turn + first, 0.0, 0.0
                for t in reversed(tokens):
                    value = float(values[row, t])
                    advantage = reward + gamma * after - value + gamma * lam * advantage
                    expected[row, t], reward, after = advantage, 0.0, value
        torch.testing.assert_close(advantages, expected)
        torch.testing.assert_close(targets, torch.where(turn >= 0, expected + values, 0.0))


def test_borders_are_the_first_and_the_last_action_token_of_each_turn() -> None:
    first, last = turn_borders(torch.tensor(TURN))
    for row in range(len(TURN)):
        assert first[row].nonzero().flatten().tolist() == [tokens[0] for tokens in turns_of(row)]
        assert last[row].nonzero().flatten().tolist() == [tokens[-1] for tokens in turns_of(row)]


def test_what_stands_outside_the_action_tokens_is_never_read() -> None:
    rewards, values, turn, bootstrap = a_batch(5)
    spoilt = [torch.where(turn >= 0, numbers, math.nan) for numbers in (rewards, values)]
    for one, other in zip(
        turn_level_gae(*spoilt, turn, 0.9, 0.9, 0.9, 0.9, bootstrap),
        turn_level_gae(rewards, values, turn, 0.9, 0.9, 0.9, 0.9, bootstrap),
        strict=True,
    ):
        assert torch.equal(one, other)
    assert torch.equal(turn_returns_to_go(spoilt[0], turn, 0.9), turn_returns_to_go(rewards, turn, 0.9))
    everywhere = torch.ones(4, 9, dtype=torch.bool)
    assert not sum_per_turn(spoilt[0], turn, everywhere)[turn < 0].any()


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
