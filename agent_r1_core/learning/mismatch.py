"""Masks against a mismatch of engine and learner: actions that they disagree about earn nothing.

rho is the learner's probability of a sampled id, before the update, over the engine's. `training.mismatch_mask` keeps:

- `icepop`: tokens with rho within [.5, 5] (Ring-1T, arXiv 2510.18855; where `training.importance_clip` is 5, too, what
  it keeps is weighed by rho, as there);
- `sequence`: segments in which the product of rho is at most 3 (TRL's default);
- `geometric`: segments in which the geometric mean of rho is within [.99, 1.01];
- `off_policy`: all but the negative advantages of segments in which it is below e^-.5 = .607, with the policy of each
  pass for the one before the update (DeepSeek-V3.2, 2512.02556: a mean of log 1 / rho above .5).

A segment is what the engine saw as one sequence; its actions alone count. What is left out has advantage 0 and stays
in the normaliser (LAW 6); terms of a loss without an advantage, a KL or an entropy bonus, do not change.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.meter import Sum
from agent_r1_core.metrics import declared as metric


def mismatched(
    settings: TrainingConfig, log_ratio: Tensor, segment: Tensor, action: Tensor, advantages: Tensor
) -> tuple[Tensor, dict[str, Sum]]:
    """The actions that the settings, whose mask is not null, leave out, and what to log of these.

    Args:
        log_ratio: [tokens], log rho at actions, else 0.
        segment: long [tokens], the number of each token's segment.
        action: bool [tokens].
        advantages: [tokens].

    Returns:
        bool [tokens], and metrics.
    """
    kind, (low, high) = settings.mismatch_mask, settings.mismatch_bounds
    actions = _sum_per(segment, action)
    if kind != "icepop":
        total = _sum_per(segment, log_ratio)
        log_ratio = (total if kind == "sequence" else total / actions.clamp(min=1))[segment]
    left_out = action & ((log_ratio < (math.log(low) if low else -math.inf)) | (log_ratio > math.log(high)))
    if kind == "off_policy":
        left_out &= advantages < 0
    return left_out, {
        metric.UPDATE_MISMATCH_MASKED: (left_out.sum(), action.sum()),
        metric.UPDATE_MISMATCH_SEGMENTS: ((_sum_per(segment, left_out) > 0).sum(), (actions > 0).sum()),
    }


def _sum_per(segment: Tensor, values: Tensor) -> Tensor:
    """[segments]."""
    zeros = torch.zeros(int(segment.max()) + 1 if segment.numel() else 0, device=segment.device)
    return zeros.index_add(0, segment, values.to(zeros.dtype))
