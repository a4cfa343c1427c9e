"""Forward passes without gradient: log-probs and values of a batch before its update, and the gap to the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from agent_r1_core.contracts.training import OldLogprobs
from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.critic import Critic
from agent_r1_core.learning.packing import Packed, pack, passes
from agent_r1_core.learning.policy import Policy, Reference
from agent_r1_core.learning.ranks import ONE_RANK, Ranks
from agent_r1_core.trajectory import Group, Segment, Task, Trajectory

Family = tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]
"""Prompts and actions as ids, to be scored each action after each prompt; no prompt is empty."""

_AGREES = 1e-4
"""Nats between engine and learner that count as rounding (LAW 2)."""
_SAMPLE = 3
"""Trajectories in a sample of a batch."""


@dataclass(frozen=True)
class NetworkOutputs:
    """What the networks say of a batch before its update; each is None where it was not asked for."""

    own_logprobs: Tensor | None = None
    """float [n, T], the policy's, nats; 0 outside the loss tokens."""
    old_logprobs: Tensor | None = None
    """float [n, T], those, or the engine's in their place."""
    reference_logprobs: Tensor | None = None
    """float [n, T], nats; 0 outside the loss tokens."""
    values: Tensor | None = None
    """float [n, T], V of the state before every response token, whether it counts in a loss or not."""
    bootstrap: Tensor | None = None
    """float [n], V of the state after the last id where the batch bootstraps, else 0."""
    compared: tuple[Tensor, Tensor] | None = None
    """Log-probs of the learner and of the engine at the same action tokens, [k] each (LAW 2)."""


@torch.no_grad()
def forward(
    batch: Batch,
    loss_mask: Tensor,
    policy: Policy,
    reference: Reference | None,
    critic: Critic | None,
    *,
    old: OldLogprobs | None,
    compare: bool = False,
    fresh: Tensor | None = None,
    temperature: float = 1.0,
    max_tokens: int = 4096,
    share: bool = True,
    ranks: Ranks = ONE_RANK,
) -> NetworkOutputs:
    """Run the networks over a batch. Every one of several ranks gets all outputs, of which it computes a part.

    Args:
        old: where the policy's log-probs come from; `auto`: the engine's where a sample of the batch agrees with a pass
            of the policy (LAW 2). None: they are not needed.
        fresh: bool [n, T], action tokens that the policy sampled as it is now: those to compare with the engine.
            None: all that were sampled.
        compare: whether to compare a sample with the engine where the policy has no pass over the whole batch.
        max_tokens: of a micro-batch.
        share: whether the trajectories of a group share the passes over what they have in common.
    """
    fresh = batch.sampled if fresh is None else fresh
    sample = _sample(batch, fresh, policy, temperature) if old == "auto" or compare else None
    if old == "auto":
        agrees = sample is not None and len(sample[0]) > 0 and bool((sample[0] - sample[1]).abs().max() <= _AGREES)
        old = "learner" if ranks.most(int(not agrees)) else "engine"
    own = torch.zeros(batch.ids.shape) if old == "learner" else None
    referred = None if reference is None else torch.zeros(batch.ids.shape)
    values = None if critic is None else torch.zeros(batch.ids.shape)
    bootstrap = None if critic is None else torch.zeros(batch.size)
    asked = own is not None or referred is not None or values is not None
    for packed in passes(batch, range(batch.size if asked else 0), max_tokens, share, ranks):
        at = _chosen(packed, loss_mask)
        for network, padded in ((policy, own), (reference, referred)):
            if network is not None and padded is not None and (len(at) or ranks.size > 1):
                packed.put(padded, at, network.logprobs(packed, at, temperature).logprobs)
        if critic is not None and values is not None and bootstrap is not None:
            response = _chosen(packed, batch.response_mask)
            before, after = _values(packed, response, critic)
            packed.put(values, response, before)
            bootstrap[packed.rows] = torch.where(batch.bootstrapped[packed.rows], after, 0.0)
    ranks.add(*(padded for padded in (own, referred, values, bootstrap) if padded is not None))
    if own is not None:
        sample = own[fresh], batch.sampler_logprobs[fresh]
    return NetworkOutputs(
        own_logprobs=own,
        old_logprobs=batch.sampler_logprobs if old == "engine" else own,
        reference_logprobs=referred,
        values=values,
        bootstrap=bootstrap,
        compared=sample if own is not None or compare else None,
    )


def crossed(families: Sequence[Family]) -> Batch:
    """Every action of a family after every one of its prompts, prompt by prompt, also where it did not follow: the
    prompt's ids are swapped, the action's kept (LAW 1). Each family is a group."""
    groups = []
    for number, (prompts, actions) in enumerate(families):
        task = Task(f"{number}", "")
        groups.append(Group(task))
        for prompt, action in product(prompts, actions):
            segment = Segment()
            segment.append_context(prompt)
            segment.append_action(action, [0.0] * len(action))
            groups[-1].trajectories.append(Trajectory(task, len(groups[-1].trajectories), [segment]))
    return Batch.from_groups(groups)


def hinted(batch: Batch) -> Batch:
    """The same actions, in the same order, behind the prompts that hold a hint, where there are such."""
    groups = [Group(Task(f"{number}", "")) for number in range(int(batch.group.max()) + 1)]
    for number, one in zip(batch.group.tolist(), batch.trajectories, strict=True):
        group, (first, *others) = groups[number], one.segments
        cut = first.prompt_length if one.hinted else 0
        told = Segment([*one.hinted, *first.ids[cut:]], [0] * len(one.hinted) + first.mask[cut:])
        told.logprobs = [0.0] * len(told.ids)
        group.trajectories.append(Trajectory(group.task, len(group.trajectories), [told, *others]))
    return Batch.from_groups(groups)


def _sample(batch: Batch, fresh: Tensor, policy: Policy, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probs of the learner and of the engine, [k] each, at the action tokens of a few trajectories from all over
    the batch."""
    rows = sorted({index * (batch.size - 1) // (_SAMPLE - 1) for index in range(_SAMPLE)})
    packed = pack(batch, rows)
    at = _chosen(packed, fresh)
    own = policy.logprobs(packed, at, temperature).logprobs.cpu() if len(at) else torch.zeros(0)
    return own, packed.take(batch.sampler_logprobs, at)


def _values(packed: Packed, at: Tensor, critic: Critic) -> tuple[Tensor, Tensor]:
    """Values before the packed tokens `at`, and after the last id of each trajectory, by one pass."""
    lasts = packed.valid.sum(1).cumsum(0) - 1
    values = critic.values(packed, torch.cat([at - 1, lasts])).cpu()
    return values[: len(at)], values[len(at) :]


def _chosen(packed: Packed, mask: Tensor) -> Tensor:
    return mask[packed.rows][packed.valid].nonzero().flatten()
