"""How token losses become one number: weights per token, normalised over the whole update (LAW 6).

The loss of an update is sum_t weight_t * loss_t. Weights are fixed before the update is cut into micro-batches or any
trajectory is skipped, so neither changes the gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agent_r1_core.contracts.algorithm import Aggregation


def aggregation_weights(mask: Tensor, aggregation: Aggregation, horizon: int = 1) -> Tensor:
    """Weight of every token; [n, T] float32, 0 outside the mask.

    With N the trajectories that have a loss token and L_i their numbers of loss tokens: `token_mean` 1 / sum_i L_i
    (DAPO, arXiv 2503.14476), `sequence_mean` 1 / (N L_i) (GRPO, 2402.03300), `sequence_sum` 1 / N,
    `constant` 1 / (N horizon) (Dr. GRPO, 2503.20783).

    Args:
        mask: bool [n, T], the loss tokens of all trajectories of the update.
        horizon: tokens, for `constant`.
    """
    lengths = mask.sum(1).to(torch.float64)
    sequences = (lengths > 0).sum().clamp(min=1)
    if aggregation == "token_mean":
        per_row = (1 / lengths.sum().clamp(min=1)).expand_as(lengths)
    elif aggregation == "sequence_mean":
        per_row = 1 / (sequences * lengths.clamp(min=1))
    elif aggregation == "sequence_sum":
        per_row = (1 / sequences.to(torch.float64)).expand_as(lengths)
    else:
        per_row = (1 / (sequences.to(torch.float64) * horizon)).expand_as(lengths)
    return torch.where(mask, per_row[:, None], per_row.new_zeros(())).float()
