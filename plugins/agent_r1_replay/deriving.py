"""Derives updates from recorded episodes: advantages, gradient, metrics and weights, without rollouts.

It is the learner of training, in this process, as it was behind the checkpoint: it trains from the record alone. A
run whose learner had several processes added its gradients in another order, so that last bits may differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from agent_r1_core.assembly.assembly import assemble_learner
from agent_r1_core.contracts.reward import SamplingPolicy
from agent_r1_core.learning.policy import Policy
from agent_r1_core.learning.selection import Selection
from agent_r1_core.learning.state import read_state
from agent_r1_core.training.resume import hardware_choices
from agent_r1_replay.recorded import groups_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agent_r1_core.assembly.task_sets import Note
    from agent_r1_core.chat import ChatTokenizer
    from agent_r1_core.config import ResolvedConfig
    from agent_r1_core.contracts.token_numbers import TokenNumbers
    from agent_r1_core.learning.forward import Family
    from agent_r1_core.learning.learner import Learner
    from agent_r1_core.runs.checkpoint import Checkpoint
    from agent_r1_core.runs.run import Run
    from agent_r1_core.trajectory import Trajectory
    from agent_r1_replay.recorded import Numbers


@dataclass(frozen=True)
class Derived:
    """An update that was derived from a record."""

    numbers: list[Numbers]
    """One for each trajectory."""
    known: TokenNumbers
    """The same, as a file takes them."""
    metrics: dict[str, float]
    gradient: dict[str, Tensor]
    """By parameter: the clipped gradients of all optimiser steps of the policy, added up; empty where it took none."""


class Deriver:
    """A run's learner, which learns from recorded trajectories.

    Args:
        run: where it learnt.
        resolved: its configuration, or a changed one.
        checkpoint: from which it goes on; None: from the run's first model.
        critic_anew: as in `assemble_learner`.
    """

    def __init__(
        self, run: Run, resolved: ResolvedConfig, checkpoint: Checkpoint | None, critic_anew: bool, note: Note
    ) -> None:
        resolved = resolved.replace(hardware_choices(run))
        self.learner: Learner
        self.tokenizer: ChatTokenizer
        self.learner, self.tokenizer = assemble_learner(resolved, checkpoint, critic_anew, note)
        self._selection = Selection(self.learner.algorithm, resolved.config.training)

    @property
    def policy(self) -> SamplingPolicy:
        """As it is before its next update, for rewards that ask it."""

        async def score(families: Sequence[Family]) -> list[list[list[float]]]:
            return [family.tolist() for family in self.learner.score(families)]

        return SamplingPolicy(score, self.tokenizer.decode)

    def derive(self, trajectories: Sequence[Trajectory], step: int) -> Derived:
        """Learn from the trajectories of a step, baselines among them; the weights move."""
        groups = groups_of(trajectories)
        kept = self._selection.filter(groups)
        with _gradients(self.learner) as gradient:
            update = self.learner.update(kept, step)
        numbers = [
            {name: None if one is None else one.tolist() for name, one in update.numbers.of(trajectory.id).items()}
            for trajectory in trajectories
        ]
        chosen = self._selection.filter_metrics(groups, kept)
        return Derived(numbers, update.numbers, {**update.metrics, **chosen}, gradient)

    def other_weights(self, policy: Path, checkpoint: Checkpoint | None) -> list[str]:
        """Names of tensors that differ from those of a policy's folder and of the checkpoint that it is in, if it is
        in one: weights, and all that a resume needs."""
        then: dict[str, Tensor] = Policy.load(policy).weights()
        now = self.learner.policy.weights()
        if checkpoint is not None:
            then |= read_state(checkpoint.trainer, self.learner.state.room)
            now |= self.learner.state.tensors()
        return [name for name in sorted({*then, *now}) if not _same(then.get(name), now.get(name))]


def cosine(one: dict[str, Tensor], other: dict[str, Tensor]) -> float | None:
    """Of the angle between two gradients; None where one of them is zero."""
    dot = sum(float((one[name].double() * other[name].double()).sum()) for name in one.keys() & other.keys())
    norms = [math.sqrt(sum(float(tensor.double().square().sum()) for tensor in each.values())) for each in (one, other)]
    return max(-1.0, min(1.0, dot / math.prod(norms))) if all(norms) else None


@contextmanager
def _gradients(learner: Learner) -> Iterator[dict[str, Tensor]]:
    """Collects the gradients with which the policy's optimiser steps."""
    names = {parameter: name for name, parameter in learner.optimiser.by_name.items()}
    found: dict[str, Tensor] = {}

    def collect(optimiser: torch.optim.Optimizer, *_: Any) -> None:
        for parameter in (one for group in optimiser.param_groups for one in group["params"]):
            if parameter.grad is not None:
                name = names[parameter]
                found[name] = parameter.grad.cpu() if name not in found else found[name] + parameter.grad.cpu()

    hook = learner.optimiser.adamw.register_step_pre_hook(collect)
    try:
        yield found
    finally:
        hook.remove()


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    return one is not None and other is not None and torch.equal(one.cpu(), other.cpu())
