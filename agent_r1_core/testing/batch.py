"""A random rollout as the tensors that an algorithm sees; no model computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from agent_r1_core.learning.aggregation import aggregation_weights
from agent_r1_core.learning.batch import Advantages, Batch
from agent_r1_core.learning.loss import LossTokens
from agent_r1_core.testing.trajectories import random_group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from agent_r1_core.contracts.algorithm import Algorithm


def tiny_batch(seed: int = 0, groups: int = 3, size: int = 4) -> Batch:
    """A random rollout of `groups` x `size` trajectories with log-probs of all networks and a critic's values."""
    batch = Batch.from_groups([random_group(seed * 100 + number, size) for number in range(groups)])
    generator = torch.Generator().manual_seed(seed)

    def noise(scale: float) -> Tensor:
        return scale * torch.randn(batch.ids.shape, generator=generator)

    zeros = torch.zeros(batch.ids.shape)
    batch.old_logprobs = torch.where(batch.response_mask, (batch.sampler_logprobs + noise(0.01)).clamp(max=0.0), zeros)
    batch.reference_logprobs = torch.where(batch.response_mask, (batch.old_logprobs + noise(0.1)).clamp(max=0.0), zeros)
    batch.values = torch.where(batch.response_mask, noise(0.5), zeros)
    return batch


def loss_tokens(
    batch: Batch, advantages: Advantages, algorithm: Algorithm, rows: Sequence[int] | None = None, moved: float = 0.0
) -> LossTokens:
    """The loss tokens of some trajectories of an update. `logprobs` and `values` are leaves with a gradient, and so is
    `entropy` if the algorithm needs its gradient.

    Args:
        advantages: the algorithm's.
        rows: trajectories of the micro-batch; None: all. Weights are always those of the whole update.
        moved: standard deviation, in nats, of the change of log-probs since the update began.
    """
    roles = algorithm.roles()
    mask = batch.action_mask if algorithm.config.loss_mask else batch.response_mask
    weights = aggregation_weights(mask, algorithm.config.aggregation, algorithm.config.horizon)
    value_mask = batch.action_mask if advantages.value_mask is None else advantages.value_mask
    in_any_loss = (mask | value_mask) if "critic" in roles else mask
    chosen = torch.zeros_like(in_any_loss)
    chosen[list(range(batch.size)) if rows is None else list(rows)] = True
    chosen &= in_any_loss
    assert batch.old_logprobs is not None
    assert batch.values is not None
    assert batch.reference_logprobs is not None
    steps = moved * torch.randn(batch.ids.shape, generator=torch.Generator().manual_seed(1))
    critic = "critic" in roles and advantages.value_targets is not None
    logprobs = (batch.old_logprobs + steps)[chosen].clone().requires_grad_()
    return LossTokens(
        logprobs=logprobs,
        old_logprobs=batch.old_logprobs[chosen],
        sampler_logprobs=batch.sampler_logprobs[chosen],
        advantages=advantages.advantages[chosen],
        weights=weights[chosen],
        sequence=torch.arange(batch.size)[:, None].expand_as(batch.ids)[chosen],
        turn=batch.turn[chosen],
        entropy=(0.5 - logprobs.detach()).requires_grad_(algorithm.needs_entropy()),
        reference_logprobs=batch.reference_logprobs[chosen] if "reference" in roles else None,
        values=(batch.values + steps)[chosen].clone().requires_grad_() if critic else None,
        old_values=batch.values[chosen] if critic else None,
        value_targets=advantages.value_targets[chosen] if critic and advantages.value_targets is not None else None,
        value_weights=aggregation_weights(value_mask, "token_mean")[chosen] if critic else None,
    )
