"""The gradient of one update, for tests of algorithms and the learner: micro-batches and savings must not change it.

The learner's own code computes it; only the optimiser's step is replaced, by one that keeps the gradient and leaves the
weights as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from agent_r1_core.contracts.algorithm import Algorithm
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.meter import Meter
from agent_r1_core.learning.optimiser import OF_POLICY, Optimiser
from agent_r1_core.learning.policy import Policy, Reference
from agent_r1_core.learning.ranks import ONE_RANK, Ranks, whole
from agent_r1_core.trajectory import Group


class KeptGradients(Optimiser):
    """An optimiser that keeps every gradient as one flat vector and takes no step."""

    def __init__(self, parameters: Iterable[nn.Parameter], settings: TrainingConfig) -> None:
        super().__init__(((str(k), one) for k, one in enumerate(parameters)), settings.lr, settings, OF_POLICY)
        self.kept: list[Tensor] = []

    def step(self, step: int, meter: Meter) -> None:
        """Keep the gradient; zeros for a weight that has none."""
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        self.kept.append(torch.cat([whole(gradient).flatten() for gradient in gradients]))
        self.clear()


def update_gradients(
    model: Any,
    algorithm: Algorithm,
    groups: Sequence[Group],
    *,
    reference: Reference | None = None,
    temperature: float = 1.0,
    critic_head: float = 0.5,
    ranks: Ranks = ONE_RANK,
    **settings: Any,
) -> list[Tensor]:
    """Gradients of one update on a copy of `model`: one flat vector per mini-batch, the policy's before the critic's.

    Args:
        reference: for algorithms with a KL or a teacher; None: the model with larger weights.
        critic_head: value of all weights of the critic's head, so that values differ and gradients reach its decoder.
        ranks: several get the same gradients, of which each computes a part.
        settings: fields of TrainingConfig.
    """
    policy = Policy(copy.deepcopy(model))
    training = TrainingConfig(**settings)
    if reference is None and "reference" in algorithm.roles():
        reference = _shifted(policy)
    learner = Learner(policy, algorithm, training, reference=reference, temperature=temperature, ranks=ranks)
    actor = KeptGradients(policy.parameters(), training)
    learner.optimiser = actor
    if learner.critic is None:
        learner.update(groups, 1)
        return actor.kept
    nn.init.constant_(learner.critic.head.weight, critic_head / learner.critic.head.in_features**0.5)
    critic = KeptGradients(dict(learner.critic.named_parameters()).values(), training)
    learner.critic_optimiser = critic
    learner.update(groups, 1)
    return [torch.cat(pair) for pair in zip(actor.kept, critic.kept, strict=True)]


def relative_difference(gradient: Tensor, expected: Tensor) -> float:
    """||gradient - expected|| / ||expected||, in float64."""
    difference = (gradient.double() - expected.double()).norm()
    return float(difference / expected.double().norm())


@torch.no_grad()
def _shifted(policy: Policy) -> Policy:
    other = Policy(copy.deepcopy(policy.module), policy.dtype).freeze()
    for parameter in other.module.parameters():
        parameter.mul_(1.2)
    return other
