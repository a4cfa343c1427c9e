"""Passes without gradient: old and reference log-probs and values of a batch, and the gap to the engine (LAW 2)."""

from __future__ import annotations

import torch
from torch import Tensor

from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.critic import Critic
from agent_r1_core.learning.meter import Meter
from agent_r1_core.learning.packing import Packed, micro_batches, pack
from agent_r1_core.learning.policy import Policy, Reference


@torch.no_grad()
def fill_frozen_scores(
    batch: Batch,
    mask: Tensor,
    *,
    policy: Policy | None,
    reference: Reference | None,
    critic: Critic | None,
    temperature: float,
    max_tokens: int,
    share: bool = True,
) -> None:
    """Fill `old_logprobs`, `reference_logprobs` at the tokens of `mask`, and `values`, `bootstrap` of the batch, each
    where its network is given. Values stand at every response token, whether masked or not."""
    if policy is not None:
        batch.old_logprobs = torch.zeros(batch.ids.shape)
    if reference is not None:
        batch.reference_logprobs = torch.zeros(batch.ids.shape)
    if critic is not None:
        batch.values = torch.zeros(batch.ids.shape)
    if policy is None and reference is None and critic is None:
        return
    for packed in micro_batches(batch, range(batch.size), max_tokens, share):
        for network, home in ((policy, batch.old_logprobs), (reference, batch.reference_logprobs)):
            at = _chosen(packed, mask)
            if network is not None and home is not None and len(at):
                _put(home, packed, at, network.logprobs(packed, at, temperature).logprobs)
        if critic is not None and batch.values is not None:
            _fill_values(batch, packed, critic)


@torch.no_grad()
def engine_agrees(batch: Batch, policy: Policy, temperature: float, rows: int = 3, bound: float = 1e-4) -> bool:
    """Whether the engine's log-probs are the policy's, within `bound` nats (LAW 2), on a few trajectories from all
    over the batch."""
    chosen = sorted({index * (batch.size - 1) // max(rows - 1, 1) for index in range(rows)})
    packed = pack(batch, chosen)
    at = _chosen(packed, batch.action_mask)
    if not len(at):
        return False
    found = policy.logprobs(packed, at, temperature).logprobs.cpu()
    return bool((found - packed.take(batch.sampler_logprobs, at)).abs().max() <= bound)


def add_gaps(meter: Meter, logprobs: Tensor, sampler_logprobs: Tensor) -> None:
    """Add |difference| between learner and engine, of log-probs (nats) and of probabilities (LAW 2)."""
    count = float(logprobs.numel())
    meter.add("logprob_gap", (logprobs - sampler_logprobs).abs().double().sum(), count)
    meter.add("prob_gap", (logprobs.exp() - sampler_logprobs.exp()).abs().double().sum(), count)


def _fill_values(batch: Batch, packed: Packed, critic: Critic) -> None:
    """One pass of the critic: values before the response tokens, and after the last id where the batch bootstraps."""
    assert batch.values is not None
    at = _chosen(packed, batch.response_mask)
    lasts = packed.valid.sum(1).cumsum(0) - 1
    found = critic.values(packed, torch.cat([at - 1, lasts])).cpu()
    _put(batch.values, packed, at, found[: len(at)])
    rows = packed.rows
    batch.bootstrap[rows] = torch.where(batch.bootstrapped[rows], found[len(at) :], 0.0)


def _chosen(packed: Packed, mask: Tensor) -> Tensor:
    return mask[packed.rows][packed.valid].nonzero().flatten()


def _put(home: Tensor, packed: Packed, at: Tensor, values: Tensor) -> None:
    """Write numbers of packed tokens to their places in a [n, T] tensor."""
    flat = torch.zeros(packed.ids.shape[0])
    flat[at] = values.float().cpu()
    part = torch.zeros(packed.valid.shape)
    part[packed.valid] = flat
    home[packed.rows] = part
