"""Policy and value losses per token; how tokens are averaged is aggregation.py's part.

All tensors are flat [tokens] unless said otherwise; log-probs in nats.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_LIMIT = 20.0
"""Bound of log-ratios: exp(20) is far beyond every clip, and far from overflow."""
_DPPO_WEIGHT = 20.0
"""Bound of rho in DPPO's loss."""


@dataclass(frozen=True)
class Surrogate:
    """A policy loss per token, and what to log of it."""

    loss: Tensor
    clipped: Tensor
    """bool: the clip bounds this token, so that it has no gradient (or, in CISPO and DPPO, a bounded weight)."""
    ratio: Tensor
    """pi / pi_old, detached."""


def log_ratio(logprobs: Tensor, old_logprobs: Tensor) -> Tensor:
    """log pi - log pi_old, bounded against overflow."""
    return (logprobs - old_logprobs).clamp(-_LIMIT, _LIMIT)


def mean_log_ratio(token_log_ratio: Tensor, unit: Tensor, counted: Tensor) -> Tensor:
    """Each token's log-ratio of a whole trajectory (GSPO, arXiv 2507.18071) or turn (2511.20718): the mean of log rho_t
    over the unit's counted tokens.

    Args:
        token_log_ratio: [tokens].
        unit: long [tokens], the number of each token's trajectory or turn.
        counted: bool [tokens], the tokens that enter the mean.
    """
    zeros = token_log_ratio.new_zeros(int(unit.max()) + 1 if unit.numel() else 0)
    weight = counted.to(token_log_ratio.dtype)
    total = zeros.index_add(0, unit, token_log_ratio * weight)
    count = zeros.index_add(0, unit, weight).clamp(min=1)
    return (total / count)[unit]


def clipped_surrogate(
    ratio_log: Tensor, advantages: Tensor, clip_low: float, clip_high: float, dual_clip: float | None = None
) -> Surrogate:
    """max(-rho A, -clip(rho, 1 - clip_low, 1 + clip_high) A) (PPO, arXiv 1707.06347; two bounds: DAPO, 2503.14476).

    With `dual_clip` c, tokens of negative advantage are bounded by -c A too (Ye et al., arXiv 1912.09729).
    """
    ratio = torch.exp(ratio_log)
    free = -ratio * advantages
    bounded = -ratio.clamp(1 - clip_low, 1 + clip_high) * advantages
    loss = torch.maximum(free, bounded)
    clipped = bounded > free
    if dual_clip is not None:
        ceiling = -dual_clip * advantages
        cut = (advantages < 0) & (loss > ceiling)
        loss = torch.where(cut, ceiling, loss)
        clipped = clipped | cut
    return Surrogate(loss, clipped, ratio.detach())


def cispo_surrogate(
    logprobs: Tensor, ratio_log: Tensor, advantages: Tensor, clip_low: float, clip_high: float
) -> Surrogate:
    """-stopgrad(clip(rho, 1 - clip_low, 1 + clip_high)) A log p (CISPO, arXiv 2506.13585).

    The weight is bounded, the gradient is not cut: every token keeps one."""
    ratio = torch.exp(ratio_log.detach())
    weight = ratio.clamp(1 - clip_low, 1 + clip_high)
    return Surrogate(-weight * advantages * logprobs, weight != ratio, ratio)


def dppo_surrogate(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, clip_low: float, clip_high: float
) -> Surrogate:
    """-stopgrad(min(rho, 20)) M A log p with rho = p / q, q the probability under the policy that sampled (DPPO with
    the total variation of a token, arXiv 2602.04879; a weight of at most 20 as in verl's).

    M drops a token once p has gone too far in its advantage's direction: M = 1 where p - q <= clip_high if A > 0, else
    where p - q >= -clip_low. The distance counts, not the ratio, so that an unlikely token may still become likelier.
    """
    now = logprobs.detach()
    ratio, moved = torch.exp(log_ratio(now, old_logprobs)), now.exp() - old_logprobs.exp()
    dropped = torch.where(advantages > 0, moved > clip_high, moved < -clip_low)
    weight = torch.where(dropped, 0.0, ratio.clamp(max=_DPPO_WEIGHT))
    return Surrogate(-weight * advantages * logprobs, weight != ratio, ratio)


def value_loss(values: Tensor, old_values: Tensor, targets: Tensor, clip: float | None) -> Tensor:
    """1/2 max((V - target)^2, (clip(V, V_old - clip, V_old + clip) - target)^2), the clipped value loss of PPO's
    reference implementation; 1/2 (V - target)^2 without a clip."""
    loss = (values - targets) ** 2
    if clip is not None:
        bounded = old_values + (values - old_values).clamp(-clip, clip)
        loss = torch.maximum(loss, (bounded - targets) ** 2)
    return 0.5 * loss


def truncated_importance(ratio_log: Tensor, clip: float) -> Tensor:
    """min(pi_old / pi_sampler, clip): corrects what the engine sampled for its small disagreement with the learner
    (truncated importance sampling, Ionides 2008; for rollout engines: Yao et al. 2025).

    Args:
        ratio_log: log pi_old - log pi_sampler.
    """
    return torch.exp(ratio_log).clamp(max=clip).detach()
