"""Process rewards on their way to credit: their scale over a batch, and discounts where turns end.

Scaling subtracts no mean: that would pay for longer or for shorter episodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from agent_r1_core.learning.turns import turn_borders

if TYPE_CHECKING:
    from agent_r1_core.learning.batch import Batch


def turn_discounts(turn: Tensor, gamma: float, gamma_turn: float) -> Tensor:
    """The discount after each token, float [n, T], for `gae` and `returns_to_go`: gamma, and gamma x gamma_turn after
    the last action token of a turn.

    Args:
        turn: long [n, T], index of the turn at its action tokens, else -1, as in `Batch.turn`.
    """
    _, last = turn_borders(turn)
    return torch.where(last, gamma * gamma_turn, gamma).float()


def scaled_rewards(batch: Batch, scale: float | None) -> Tensor:
    """The batch's rewards [n, T] with each turn's process reward p multiplied by scale / sqrt(mean p^2).

    The mean is over all turns of the batch that have action tokens, also those without a reward. Outcome rewards stay
    as they are, and so does everything if `scale` is None or no turn has a reward.
    """
    if scale is None:
        return batch.rewards
    rewards = torch.where(batch.action_mask, batch.process_rewards, 0.0)
    _, last = turn_borders(batch.turn)
    square = rewards.double().square().sum() / last.sum()
    if not square > 0:
        return batch.rewards
    return batch.rewards + (float(scale / square.sqrt()) - 1) * rewards
