"""One row at work: its algorithm, called as the learner calls it, on the episodes of one update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from agent_r1_core import Algorithm, Group
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.batch import Advantages, Batch
from agent_r1_core.learning.checks import CheckedAlgorithm
from agent_r1_core.learning.likelihood import MaximumLikelihood
from agent_r1_core.learning.selection import Selection
from agent_r1_core.testing.batch import loss_tokens
from agent_r1_league.play import Rollout
from agent_r1_league.truth import Places, Truth

Critic = Literal["exact", "fitted", "zero"]
CRITICS: tuple[Critic, ...] = ("exact", "fitted", "zero")
_RATE = 0.5
"""How far a fitted critic's value of a place moves to the mean of its targets there, with each update."""


@dataclass(frozen=True)
class Played:
    """The episodes of an update as tensors."""

    groups: list[Group]
    batch: Batch
    places: Tensor
    """long [n, T], as `Places.of` says."""

    @classmethod
    def of(cls, groups: Sequence[Group], places: Places) -> Played:
        """The groups, of which none is empty."""
        batch = Batch.from_groups(groups)
        # The first update of a rollout: policy, sampler and reference agree.
        before = batch.sampler_logprobs
        batch = replace(batch, old_logprobs=before, reference_logprobs=before, values=torch.zeros(batch.ids.shape))
        return cls(list(groups), batch, places.of(batch))


@dataclass(frozen=True)
class Credit:
    """What an algorithm makes of an update."""

    played: Played
    """What it learns from."""
    advantages: Advantages


class TrueAdvantages(MaximumLikelihood):
    """The league's own row: exact advantages, in a loss -A log pi averaged over tokens. What it lacks to the true
    gradient is that episodes are few."""


class Estimator:
    """An algorithm with its critic."""

    def __init__(self, algorithm: Algorithm, critic: Critic | None, places: Places) -> None:
        self.algorithm = algorithm
        self._checked = CheckedAlgorithm(algorithm)
        self._selection = Selection(algorithm, TrainingConfig())
        self._critic, self._places = critic, places
        self._values = torch.zeros(len(places.numbers), dtype=torch.float64)

    @property
    def fits(self) -> bool:
        """Whether its critic learns."""
        return self._critic == "fitted"

    def groups(self, rollout: Rollout) -> list[Group]:
        """The rollout's groups as the algorithm wants them; each has as many episodes, its greedy one included."""
        return rollout.with_baselines() if self.algorithm.needs_greedy_baseline() else rollout.groups

    def credit(self, played: Played, truth: Truth) -> Credit | None:
        """The algorithm's credit; None: its filter leaves nothing to learn from.

        Args:
            played: what `groups` gave.
            truth: of the policy that played, for exact critics.

        Raises:
            AlgorithmError: it raised, or returned what its contract does not allow.
        """
        kept = self._selection.filter(played.groups)
        if not kept:
            return None
        if [id(group) for group in kept] != [id(group) for group in played.groups]:
            played = Played.of(kept, self._places)
        if isinstance(self.algorithm, TrueAdvantages):
            batch, own = played.batch, torch.zeros(played.batch.ids.shape)
            own[batch.action_mask] = truth.of(played.places[batch.action_mask], batch.ids[batch.action_mask]).float()
            return Credit(played, Advantages(own))
        known = truth.values if self._critic == "exact" else self._values
        here = torch.where(played.places >= 0, known[played.places], 0.0).float()
        played = replace(played, batch=replace(played.batch, values=here))
        mask = played.batch.action_mask if self.algorithm.config.loss_mask else played.batch.response_mask
        advantages = self._checked.advantages(played.batch, mask)
        if self.fits:
            self._fit(played, advantages)
        return Credit(played, advantages)

    def gradient(self, credit: Credit, policy: Tensor) -> Tensor:
        """The update's direction [P, V] in the logits of the policy [P, V]: its loss's gradient downhill, without those
        of entropy bonuses that go through the entropy.

        Raises:
            AlgorithmError: as `credit`.
        """
        batch, gradient = credit.played.batch, torch.zeros_like(policy)
        tokens = loss_tokens(batch, credit.advantages, self.algorithm)
        (slopes,) = torch.autograd.grad(self._checked.loss(tokens).loss, tokens.logprobs)
        uphill = -slopes[tokens.turn >= 0].double()
        at, ids = credit.played.places[batch.action_mask], batch.ids[batch.action_mask]
        gradient.index_put_((at, ids), uphill, accumulate=True)
        return gradient - gradient.sum(1, keepdim=True) * policy

    def _fit(self, played: Played, advantages: Advantages) -> None:
        assert advantages.value_targets is not None
        mask = played.batch.action_mask if advantages.value_mask is None else advantages.value_mask
        at, targets = played.places[mask], advantages.value_targets[mask].double()
        counts = torch.bincount(at, minlength=len(self._values))
        means = torch.zeros_like(self._values).index_add(0, at, targets) / counts.clamp(min=1)
        self._values = torch.where(counts > 0, self._values + _RATE * (means - self._values), self._values)
