"""Credit per turn: returns to go over turns, and GAE on two levels, turns and their tokens.

`turn` [n, T] is the index of the turn at its action tokens and -1 elsewhere, as in `Batch`; it rises along a row. A
turn is where the trajectory says so, with or without a reward, summaries that the policy writes included; one without
action tokens is none. What stands outside the action tokens is never read (LAW 3).
"""

from __future__ import annotations

import torch
from torch import Tensor

from agent_r1_core.learning.credit import gae, returns_to_go


def turn_level_gae(
    rewards: Tensor,
    values: Tensor,
    turn: Tensor,
    gamma: float,
    lam: float | Tensor,
    gamma_turn: float,
    lam_turn: float,
    bootstrap: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Bi-level GAE (RAGEN, arXiv 2504.20073). Over a row's turns 1..K, with V_k the value at the turn's first action
    token and r_k the sum of the rewards at its action tokens:

    d_k = r_k + gamma_turn V_{k+1} - V_k,  A_k = d_k + gamma_turn lam_turn A_{k+1},  with V_{K+1} the bootstrap.

    Then GAE with `gamma` and `lam` over the tokens of each turn alone: A_k + V_k is the reward of its last action
    token, the others have none, and nothing follows it. The code of RAGEN and of VAGEN takes V_k at the turn's last
    action token; with lam_turn 1 that is the same, since A_k + V_k does not depend on any V but the bootstrap.

    Args:
        rewards, values: [n, T].
        turn: long [n, T].
        bootstrap: [n] value after the last id where a limit outside the MDP cut the trajectory, else 0 (LAW 5).

    Returns:
        advantages [n, T] and value targets A + V [n, T], both 0 outside the action tokens.
    """
    first, last = turn_borders(turn)
    _, targets = gae(sum_per_turn(rewards, turn, first), values, first, gamma_turn, lam_turn, bootstrap)
    return gae(sum_per_turn(targets, turn, last), values, turn >= 0, gamma, lam, ends=last)


def turn_returns_to_go(rewards: Tensor, turn: Tensor, gamma: float) -> Tensor:
    """G_k = r_k + gamma G_{k+1} over a row's turns, r_k the sum of a turn's rewards; [n, T], at the turn's first action
    token, else 0."""
    first, _ = turn_borders(turn)
    return returns_to_go(sum_per_turn(rewards, turn, first), first, gamma)


def turn_borders(turn: Tensor) -> tuple[Tensor, Tensor]:
    """bool [n, T] each: the first and the last action token of every turn."""
    nothing = turn.new_full((turn.shape[0], 1), -1)
    before = torch.cat([nothing, turn], 1).cummax(1).values[:, :-1]
    never = int(turn.max()) + 1 if turn.numel() else 0
    later = torch.where(turn >= 0, turn, never)
    after = torch.cat([later, nothing + 1 + never], 1).flip(1).cummin(1).values.flip(1)[:, 1:]
    return turn > before, (turn >= 0) & (turn < after)


def sum_per_turn(values: Tensor, turn: Tensor, at: Tensor) -> Tensor:
    """The sum of `values` [n, T] over the action tokens of each turn, where `at` (bool [n, T]) is true, else 0."""
    action = turn >= 0
    index = turn.clamp(min=0)
    turns = int(index.max()) + 1 if turn.numel() else 0
    counted = torch.where(action, values, values.new_zeros(()))
    sums = values.new_zeros(turn.shape[0], turns).scatter_add(1, index, counted)
    return torch.where(at & action, sums.gather(1, index), values.new_zeros(()))
