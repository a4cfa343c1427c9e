"""What an update works on: a batch with its advantages, mini-batches with their weights; and what comes out of it."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import reduce
from operator import or_

import torch
from torch import Tensor

from agent_r1_core.contracts.algorithm import AlgorithmConfig
from agent_r1_core.contracts.token_numbers import TokenNumbers
from agent_r1_core.devices import on_device
from agent_r1_core.errors import AgentR1Error
from agent_r1_core.learning.aggregation import aggregation_weights
from agent_r1_core.learning.batch import Advantages, Batch
from agent_r1_core.learning.loss import LossTokens
from agent_r1_core.learning.packing import Packed
from agent_r1_core.learning.policy import TokenLogprobs
from agent_r1_core.learning.ranks import Ranks
from agent_r1_core.metrics import declared as metric


class UpdateStopped(AgentR1Error):
    """An update was stopped before its end."""


@dataclass(frozen=True)
class Update:
    """What one `Learner.update` did."""

    metrics: dict[str, float]
    numbers: TokenNumbers
    """Advantages, and what the networks said of the tokens."""
    warnings: tuple[str, ...] = ()
    """What the algorithm wants the user to read."""

    @classmethod
    def of_nothing(cls, batch: Batch, failed: float) -> Update:
        """Where no trajectory has an action to learn from."""
        metrics: dict[str, float] = {
            metric.UPDATE_TRAJECTORIES: 0.0,
            metric.UPDATE_FAILED_TRAJECTORIES: failed,
            metric.UPDATE_ACTION_TOKENS: 0.0,
            metric.UPDATE_STEPS: 0.0,
        }
        return cls(metrics, batch.numbers(torch.zeros(batch.ids.shape)))


@dataclass
class UpdateBatch:
    """A batch with its advantages and the tokens of its losses, and what the policy said of it before the update.

    For the run's files it keeps the policy's log-probs of action tokens. They come from passes that the update makes
    anyway, never from one more: the pass over the whole batch, where there is one, else the gradient's passes over the
    first mini-batch, before the policy moves. Tokens that neither reached have none: those of trajectories that were
    skipped, and of later mini-batches; of all where adapters have dropout, since a pass with gradient drops some.
    """

    batch: Batch
    advantages: Advantages
    loss_mask: Tensor
    """bool [n, T], tokens of the policy's loss."""
    value_mask: Tensor | None
    """bool [n, T], tokens of the value loss; None without a critic."""
    fresh: Tensor
    """bool [n, T], action tokens whose log-probs must be the learner's own before its update (LAW 2)."""
    own_logprobs: Tensor | None
    """float [n, T], those of a pass over the whole batch, if there was one."""
    recorded: bool
    """Whether log-probs and values are kept."""
    taken: bool
    """Whether the gradient's passes may say the log-probs."""
    observation_mask: Tensor | None = None
    """bool [n, T], tokens of the cross-entropy on observations; None without one."""

    def __post_init__(self) -> None:
        self._open = self.taken and self.own_logprobs is None
        self._known = torch.zeros_like(self.loss_mask) if self.own_logprobs is None else self.loss_mask
        self._taken: list[tuple[Packed, Tensor, Tensor]] = []
        """Of this rank's passes: the chosen tokens and their log-probs, which stay on their device until the end."""

    @property
    def in_a_loss(self) -> Tensor:
        """bool [n, T], tokens of any loss."""
        masks = (self.value_mask, self.observation_mask)
        return reduce(or_, (mask for mask in masks if mask is not None), self.loss_mask)

    def take(self, packed: Packed, at: Tensor, logprobs: Tensor) -> None:
        """Keep what a pass of the gradient says of the packed tokens `at`, [k] each, unless the policy has moved."""
        if self._open:
            self._taken.append((packed, at, logprobs.detach()))

    def close(self, rows: list[int]) -> None:
        """The policy moves now; the ranks have made passes over the loss tokens of these rows."""
        if self._open:
            self._open = False
            self._known[rows] = self.in_a_loss[rows]

    def numbers(self, ranks: Ranks) -> TokenNumbers:
        """What is known of the tokens, on every rank; NaN where a log-prob or value is not."""
        batch, own, advantages = self.batch, self.own_logprobs, self.advantages.advantages
        if not self.recorded:
            return batch.numbers(advantages)
        if own is None:
            own = torch.zeros(batch.ids.shape)
            for packed, at, logprobs in self._taken:
                packed.put(own, at, logprobs)
            ranks.add(own)
        own = torch.where(self._known & batch.action_mask, own, math.nan)
        values = None if batch.values is None else torch.where(batch.response_mask, batch.values, math.nan)
        return batch.numbers(advantages, own, values)

    def statistics(self) -> dict[str, float]:
        """Metrics of the batch and of its advantages, over all of its tokens, skipped or not."""
        batch, credited = self.batch, self.advantages.advantages[self.loss_mask]
        sampled = batch.sampler_logprobs[batch.sampled]
        surprisal: dict[str, float] = {metric.UPDATE_SURPRISAL: -float(sampled.mean())} if len(sampled) else {}
        return {
            metric.UPDATE_TRAJECTORIES: float(batch.size),
            metric.UPDATE_ACTION_TOKENS: float(batch.action_mask.sum()),
            metric.UPDATE_ADVANTAGE_MEAN: float(credited.mean()),
            metric.UPDATE_ADVANTAGE_STD: float(credited.std(correction=0)),
            metric.UPDATE_ADVANTAGE_MAX: float(credited.abs().max()),
            **surprisal,
            **{f"update/{name}": value for name, value in self.advantages.metrics.items()},
        }


def shuffled_rows(rows: int, minibatches: int, seed: str) -> list[list[int]]:
    """Row numbers cut into mini-batches, as equal as can be, in the order that `seed` decides; a single one keeps the
    batch's order."""
    count = min(minibatches, rows)
    order = list(range(rows))
    if count > 1:
        random.Random(seed).shuffle(order)
    return [order[rows * k // count : rows * (k + 1) // count] for k in range(count)]


@dataclass(frozen=True)
class Minibatch:
    """The trajectories of one optimiser step, with the weights of their tokens."""

    update: UpdateBatch
    rows: list[int]
    kept: list[int]
    """The rows without those that are skipped."""
    weights: Tensor
    """float [n, T], of the policy's loss, 0 outside the rows."""
    value_weights: Tensor | None
    """float [n, T], of the value loss; None without a critic."""
    observation_weights: Tensor | None
    """float [n, T], of the cross-entropy on observations; None without one."""

    @classmethod
    def of(cls, update: UpdateBatch, rows: list[int], config: AlgorithmConfig, skips: bool = False) -> Minibatch:
        """Weigh the tokens of `rows`: the normaliser is that of all the rows, skipped or not (LAW 6).

        Args:
            skips: whether rows without an advantage at any loss token are left out.
        """
        weights = torch.zeros(update.loss_mask.shape)
        weights[rows] = aggregation_weights(update.loss_mask[rows], config.aggregation, config.horizon)
        others = (_token_mean(mask, rows) for mask in (update.value_mask, update.observation_mask))
        credited = ((update.advantages.advantages != 0) & update.loss_mask).any(1)
        return cls(update, rows, [row for row in rows if credited[row] or not skips], weights, *others)

    def loss_tokens(
        self,
        packed: Packed,
        chosen: Tensor,
        policy: TokenLogprobs | None,
        values: Tensor | None,
        device: torch.device,
        segments: bool = False,
    ) -> LossTokens:
        """What the algorithm's loss gets of a micro-batch.

        Args:
            chosen: bool [packed tokens], those that are in a loss.
            policy: log-probs and entropies of the chosen tokens; None where only the critic learns: the policy then is
                what it was before the update.
            values: of the states before the chosen tokens; None without a critic.
            segments: whether to tell the tokens' segments.
        """
        batch, advantages = self.update.batch, self.update.advantages

        def take(numbers: Tensor) -> Tensor:
            return on_device(packed.take(numbers, chosen), device)

        def take_some(numbers: Tensor | None) -> Tensor | None:
            return None if numbers is None else take(numbers)

        sampler, old = take(batch.sampler_logprobs), take_some(batch.old_logprobs)
        if policy is None:
            before = sampler if old is None else old
            policy = TokenLogprobs(before, torch.zeros_like(before))
        sequence = torch.arange(len(packed.rows)).repeat_interleave(packed.valid.sum(1))
        return LossTokens(
            logprobs=policy.logprobs,
            old_logprobs=policy.logprobs.detach() if old is None else old,
            sampler_logprobs=sampler,
            advantages=take(advantages.advantages),
            weights=take(self.weights),
            sequence=on_device(sequence[chosen], device),
            turn=take(batch.turn),
            entropy=policy.entropy,
            reference_logprobs=take_some(batch.reference_logprobs),
            values=values,
            old_values=take_some(batch.values),
            value_targets=take_some(advantages.value_targets),
            value_weights=take_some(self.value_weights),
            segment=on_device(_segments(batch, packed)[chosen], device) if segments else None,
            observation_weights=take_some(self.observation_weights),
        )


def _token_mean(mask: Tensor | None, rows: list[int]) -> Tensor | None:
    """Weights of the mask's tokens in these rows, [n, T]."""
    if mask is None:
        return None
    weights = torch.zeros(mask.shape)
    weights[rows] = aggregation_weights(mask[rows], "token_mean")
    return weights


def _segments(batch: Batch, packed: Packed) -> Tensor:
    """long [packed tokens]: the number of each token's segment among those of the packed trajectories."""
    lengths = [len(one.ids) for row in packed.rows.tolist() for one in batch.trajectories[row].segments]
    return torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
