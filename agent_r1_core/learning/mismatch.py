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
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.meter import Sum
from agent_r1_core.learning.surrogate import log_ratio
from agent_r1_core.metrics import declared as metric

if TYPE_CHECKING:
    from agent_r1_core.learning.loss import LossTokens


def mask_mismatch(tokens: LossTokens, settings: TrainingConfig) -> tuple[LossTokens, dict[str, Sum]]:
    """The tokens with advantage 0 at the actions that the settings leave out, and what to log of these."""
    kind, segment = settings.mismatch_mask, tokens.sequence if tokens.segment is None else tokens.segment
    if kind is None:
        return tokens, {}
    learner = tokens.logprobs.detach() if kind == "off_policy" else tokens.old_logprobs
    action = tokens.turn >= 0
    apart = torch.where(action, log_ratio(learner, tokens.sampler_logprobs), 0.0)
    segments = _sum_per(segment, action)
    if kind != "icepop":
        total = _sum_per(segment, apart)
        apart = (total if kind == "sequence" else total / segments.clamp(min=1))[segment]
    low, high = settings.mismatch_bounds
    left_out = action & ((apart < (math.log(low) if low else -math.inf)) | (apart > math.log(high)))
    if kind == "off_policy":
        left_out &= tokens.advantages < 0
    sums: dict[str, Sum] = {
        metric.UPDATE_MISMATCH_MASKED: (left_out.sum(), action.sum()),
        metric.UPDATE_MISMATCH_SEGMENTS: ((_sum_per(segment, left_out) > 0).sum(), (segments > 0).sum()),
    }
    return replace(tokens, advantages=torch.where(left_out, 0.0, tokens.advantages)), sums


def _sum_per(segment: Tensor, values: Tensor) -> Tensor:
    """[segments]."""
    zeros = torch.zeros(int(segment.max()) + 1 if segment.numel() else 0, device=segment.device)
    return zeros.index_add(0, segment, values.to(zeros.dtype))
