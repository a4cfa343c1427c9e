"""The one place of the yardstick that knows how the project's learner is made, run and watched."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from hard_rollouts import WEIGHTS
from plain_model import Shape
from torch import Tensor

from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.learning.critic import Critic
from agent_r1_core.learning.learner import Learner
from agent_r1_core.learning.optimiser import Optimiser
from agent_r1_core.learning.policy import Policy
from agent_r1_core.learning.ranks import ONE_RANK, Ranks
from agent_r1_core.learning.selection import Selection
from agent_r1_core.plugins import Registry
from agent_r1_core.testing import tiny_model
from agent_r1_core.trajectory import Group

REGISTRY = Registry.discover()


Named = dict[str, Tensor]


@dataclass
class Trained:
    """A network before, at each of its optimiser's steps, and after."""

    before: Named
    trail: list[Named] = field(default_factory=list)
    """Weights before each step of a single rank."""
    gradients: list[Named] = field(default_factory=list)
    after: Named = field(default_factory=dict)


@dataclass
class Run:
    """What one or several updates did."""

    policy: Trained
    critic: Trained
    reference: Named
    metrics: list[dict[str, float]] = field(default_factory=list)


def algorithms() -> dict[str, dict[str, Any]]:
    """Every name under which an algorithm is registered, with its options as it sets them."""
    names = [record.name for record in REGISTRY.components("algorithm")]
    return {name: REGISTRY.create("algorithm", name).config.model_dump() for name in names}


def settings() -> dict[str, Any]:
    """Every setting of training, with its default."""
    return TrainingConfig().model_dump()


def models() -> tuple[Any, Any, Any]:
    """Policy, critic's beginning and reference: three that differ."""
    return copy.deepcopy(_models())


@lru_cache
def _models() -> tuple[Any, Any, Any]:
    policy, critic, reference = tiny_model(tie=False), tiny_model(seed=1), tiny_model(tie=False)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in policy.parameters():
            if not weight.any() or bool((weight == 1).all()):  # biases and norms, which begin at 0 and 1
                weight.add_(0.1 * torch.randn(weight.shape, generator=generator))
        for weight, other in zip(policy.parameters(), reference.parameters(), strict=True):
            other.copy_(weight + 0.02 * torch.randn(weight.shape, generator=generator))
    return policy, critic, reference


@lru_cache
def shape() -> Shape:
    """Of these models."""
    config = models()[0].config
    return Shape(
        config.num_hidden_layers,
        config.num_attention_heads,
        config.num_key_value_heads,
        config.rms_norm_eps,
        config.rope_parameters["rope_theta"],
    )


def learn(
    name: str,
    options: Mapping[str, Any],
    rollouts: Sequence[Sequence[Group]],
    *,
    temperature: float,
    seed: int,
    ranks: Ranks = ONE_RANK,
    first: int = 1,
    **settings: Any,
) -> Run:
    """Update on one rollout after the other, in steps from `first` on; of several ranks each tells of its share of
    the weights, the first rows of every tensor on the first rank and so on."""
    policy, critic, reference = models()
    algorithm = REGISTRY.create("algorithm", {"name": name, **options})
    actor = Policy(policy)
    judge = Critic(Policy(critic))
    torch.nn.init.normal_(judge.head.weight, std=0.1, generator=torch.Generator().manual_seed(0))
    run = Run(Trained(_by_name(policy)), Trained(_critic_by_name(judge)), _by_name(reference))
    learner = Learner(
        actor,
        algorithm,
        TrainingConfig(**settings),
        critic=judge,
        reference=Policy(reference).freeze(),
        temperature=temperature,
        seed=seed,
        ranks=ranks,
        reward_weights=WEIGHTS,
    )
    _watch(learner.optimiser, run.policy, ranks)
    if learner.critic_optimiser is not None:
        _watch(learner.critic_optimiser, run.critic, ranks)
    for step, groups in enumerate(rollouts, first):
        run.metrics.append(learner.update(Selection(learner.algorithm, learner.settings).filter(groups), step).metrics)
    run.policy.after, run.critic.after = _by_name(policy), _critic_by_name(judge)
    return run


def relative_error(actual: Named, expected: Named) -> float:
    """||actual - expected|| / ||expected||; ||actual|| where nothing is expected."""
    error, norm = (_flat(actual, expected) - _flat(expected, expected)).norm(), _flat(expected, expected).norm()
    return float(error / norm) if norm > 0 else float(error)


def _flat(tensors: Named, order: Named) -> Tensor:
    return torch.cat([tensors[name].double().flatten() for name in order])


def _watch(optimiser: Optimiser, trained: Trained, ranks: Ranks) -> None:
    """Keep copies of gradients at every step of an optimiser, and of weights where a single rank has them at hand."""
    original = optimiser.step

    def step(*arguments: Any, **more: Any) -> None:
        named = dict(zip(trained.before, optimiser.parameters, strict=True))
        if ranks.size == 1:
            trained.trail.append({name: weight.detach().clone() for name, weight in named.items()})
        trained.gradients.append(
            {n: _own(torch.zeros_like(w) if w.grad is None else w.grad).clone() for n, w in named.items()}
        )
        original(*arguments, **more)

    optimiser.step = step  # type: ignore[method-assign]


def _own(tensor: Tensor) -> Tensor:
    """This rank's share."""
    local: Any = getattr(tensor, "to_local", None)
    return tensor if local is None else local()


def _by_name(model: Any) -> Named:
    return {name: _own(value.detach()).clone() for name, value in model.named_parameters()}


def _critic_by_name(critic: Critic) -> Named:
    own = {f"model.{name}": value for name, value in _by_name(critic.decoder.module).items()}
    return own | {f"head.{name}": value for name, value in _by_name(critic.head).items()}
