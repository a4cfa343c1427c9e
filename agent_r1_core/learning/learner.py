"""The learner: turns the groups of one rollout into optimiser steps of the policy, and of the critic if there is one.

One process, one device. It keeps no hidden state: shuffling is seeded by run, step and epoch, the learning rate follows
from the step, so that `state_dict` and the policy's folder are all that an exact resume needs (LAW 10).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from agent_r1_core.contracts.algorithm import Algorithm
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.errors import AgentR1Error, ConfigError
from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.checks import CheckedAlgorithm
from agent_r1_core.learning.critic import Critic
from agent_r1_core.learning.forward import add_gaps, forward
from agent_r1_core.learning.kl import kl_estimate
from agent_r1_core.learning.loss import LossTokens, add_entropy
from agent_r1_core.learning.meter import Meter
from agent_r1_core.learning.optimiser import Optimiser
from agent_r1_core.learning.packing import Packed, micro_batches
from agent_r1_core.learning.policy import Policy, Reference
from agent_r1_core.learning.surrogate import truncated_importance
from agent_r1_core.learning.update import Minibatch, Update, UpdateBatch, shuffled_rows
from agent_r1_core.trajectory import Group


class UpdateStopped(AgentR1Error):
    """An update was stopped before its end."""


class Learner:
    """Trains a policy.

    Args:
        algorithm: computes advantages and losses.
        critic: begins as a copy of the policy where the algorithm needs one and none is given.
        reference: the frozen first policy, where the algorithm needs one; with adapters it is the model below them.
        temperature: of the sampling in training; log-probs are log softmax(logits / temperature) (LAW 2).
        seed: of the run; shuffles mini-batches.

    Raises:
        ConfigError: the algorithm needs a reference and none is given, or log-probs that the engine has not.
    """

    def __init__(
        self,
        policy: Policy,
        algorithm: Algorithm,
        settings: TrainingConfig,
        *,
        critic: Critic | None = None,
        reference: Reference | None = None,
        temperature: float = 1.0,
        seed: int = 0,
    ) -> None:
        roles = algorithm.roles()
        if "reference" in roles and reference is None and policy.lora:
            reference = policy.base_model()
        if "reference" in roles and reference is None:
            raise ConfigError(
                f"algorithm {algorithm.name or type(algorithm).__name__} has a KL term and the learner was given no "
                "reference policy; pass the run's first policy as `reference`, or set the KL coefficient to 0"
            )
        if settings.old_logprobs == "engine" and not algorithm.config.loss_mask:
            raise ConfigError(
                "training.old_logprobs=engine has no log-probs of the environment's tokens, which algorithm.loss_mask="
                "false trains on; set training.old_logprobs=learner"
            )
        self.policy = policy
        self.algorithm = algorithm
        self.settings = settings
        self.reference = reference if "reference" in roles else None
        self.critic = (critic or Critic(policy)) if "critic" in roles else None
        self.temperature = temperature
        self.seed = seed
        self._checked = CheckedAlgorithm(algorithm)
        self._entropy_gradient = algorithm.needs_entropy()
        self._skips = settings.skip_without_gradient and not (
            algorithm.needs_every_trajectory() or algorithm.needs_entropy()
        )
        self._needs_old = algorithm.needs_old_logprobs()
        self._uses_old = algorithm.uses_old_logprobs(settings.epochs, settings.minibatches)
        self._warmup = settings.critic_warmup if self.critic else 0
        self.optimiser = Optimiser(policy.parameters(), settings.lr, settings, "update/", self._warmup)
        critic_lr = settings.lr if settings.critic_lr is None else settings.critic_lr
        self.critic_optimiser = (
            Optimiser(self.critic.parameters(), critic_lr, settings, "update/critic_") if self.critic else None
        )

    def filter(self, groups: Sequence[Group]) -> list[Group]:
        """The groups that the algorithm wants to learn from.

        Raises:
            AlgorithmError: its filter raised, or returned other groups than it was given.
        """
        return self._checked.filter(groups)

    def more_tasks(self, groups: Sequence[Group], tasks: int) -> int:
        """How many further tasks the algorithm asks for, given the groups that it kept of so many tasks.

        Raises:
            AlgorithmError: it raised, or returned no count.
        """
        return self._checked.more_tasks(groups, tasks)

    def update(self, groups: Sequence[Group], step: int, stopped: Callable[[], bool] = lambda: False) -> Update:
        """Learn from one rollout. It may run in a thread of its own: it draws from no generator that others share.

        Args:
            groups: what `filter` kept; failed trajectories in them are left out.
            step: of the run, from 1.
            stopped: asked before each micro-batch; once it says so, nothing more is computed.

        Raises:
            AlgorithmError: the algorithm raised, or returned what its contract does not allow.
            UpdateStopped: it was stopped; the weights are those of no step.
        """
        self._stopped = stopped
        batch = Batch.from_groups(groups)
        failed = float(sum(len(group.trajectories) for group in groups) - batch.size)
        if not bool(batch.action_mask.any()):
            metrics = {"trajectories": 0.0, "failed_trajectories": failed, "action_tokens": 0.0, "steps": 0.0}
            named = {f"update/{name}": value for name, value in metrics.items()}
            return Update(named, batch.by_trajectory(torch.zeros(batch.ids.shape)))
        self.policy.seed_dropout(self.seed, step)
        meter = Meter()
        update = self._with_advantages(batch, step, meter)
        batch, advantages = update.batch, update.advantages.advantages
        if bool(torch.isfinite(advantages).all() and torch.isfinite(batch.rewards).all()):
            for epoch in range(self.settings.epochs):
                seed = f"{self.seed}/{step}/{epoch}"
                for rows in shuffled_rows(batch.size, self.settings.minibatches, seed):
                    minibatch = Minibatch.of(update, rows, self.algorithm.config, self._skips)
                    self._optimise(minibatch, step, meter)
        else:
            meter.add("update/skipped_nonfinite", 1.0)
        if self.critic is None:
            meter.add("update/bootstrapped_without_critic", float(batch.bootstrapped.sum()))
        metrics = meter.values() | update.statistics() | {"update/failed_trajectories": failed}
        return Update(metrics, batch.by_trajectory(advantages))

    def state_dict(self) -> dict[str, Any]:
        """All that an exact resume needs beside the policy's folder."""
        state: dict[str, Any] = {"policy": self.policy.state_dict(), "optimiser": self.optimiser.state_dict()}
        if self.critic is not None and self.critic_optimiser is not None:
            state |= {"critic": self.critic.state_dict(), "critic_optimiser": self.critic_optimiser.state_dict()}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what `state_dict` gave, bit for bit.

        Raises:
            ConfigError: the state is of an algorithm with other roles.
        """
        if ("critic" in state) != (self.critic is not None):
            raise ConfigError(
                f"the checkpoint was written {'with' if 'critic' in state else 'without'} a critic and algorithm "
                f"{self.algorithm.name!r} runs the other way; resume with the algorithm of the run"
            )
        self.policy.load_state_dict(state["policy"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.critic is not None and self.critic_optimiser is not None:
            self.critic.load_state_dict(state["critic"])
            self.critic_optimiser.load_state_dict(state["critic_optimiser"])

    def _with_advantages(self, batch: Batch, step: int, meter: Meter) -> UpdateBatch:
        """The batch with what the networks say of it, and its advantages."""
        loss_mask = batch.action_mask if self.algorithm.config.loss_mask else batch.response_mask
        batch = self._with_outputs(batch, loss_mask, step, meter)
        advantages = self._checked.advantages(batch, loss_mask)
        value_mask = None
        if self.critic is not None:
            value_mask = batch.action_mask if advantages.value_mask is None else advantages.value_mask
        return UpdateBatch(batch, advantages, loss_mask, value_mask)

    def _with_outputs(self, batch: Batch, loss_mask: Tensor, step: int, meter: Meter) -> Batch:
        """The batch with the log-probs and values before the update that the algorithm needs."""
        learns, environment = step > self._warmup, not self.algorithm.config.loss_mask
        # The engine has no log-probs of the environment's tokens; of actions they will do while the critic warms up.
        wanted = self._needs_old or (self._uses_old if learns else environment)
        source = "learner" if environment else self.settings.old_logprobs
        outputs = forward(
            batch,
            loss_mask,
            self.policy,
            self.reference,
            self.critic,
            old=source if wanted else None,
            compare=not learns,
            temperature=self.temperature,
            max_tokens=self.settings.max_tokens_per_microbatch,
            share=self._shares,
        )
        if outputs.compared is not None:
            add_gaps(meter, *outputs.compared)
        return replace(
            batch,
            old_logprobs=outputs.old_logprobs,
            reference_logprobs=outputs.reference_logprobs,
            values=outputs.values,
            bootstrap=batch.bootstrap if outputs.bootstrap is None else outputs.bootstrap,
        )

    @property
    def _shares(self) -> bool:
        """Whether sequences share prefixes: it gains nothing where the decoder runs one sequence at a time."""
        return self.settings.share_prefixes and self.policy.decoder.packs

    def _optimise(self, minibatch: Minibatch, step: int, meter: Meter) -> None:
        """One optimiser step."""
        batch, size = minibatch.update.batch, len(minibatch.rows)
        meter.add("update/skipped_share", float(size - len(minibatch.kept)), float(size))
        meter.add("update/measured_share", *minibatch.measured)
        learns, gap = step > self._warmup, "logprob_gap" not in meter.sums
        for packed in micro_batches(batch, minibatch.kept, self.settings.max_tokens_per_microbatch, self._shares):
            if self._stopped():
                raise UpdateStopped(f"the update of step {step} was stopped; resume from the last checkpoint")
            self._backward(minibatch, packed, learns, gap, meter)
        meter.add("update/loss", 0.0, 1.0)
        if learns:
            self.optimiser.step(step, meter)
        if self.critic_optimiser is not None:
            meter.add("update/value_loss", 0.0, 1.0)
            self.critic_optimiser.step(step, meter)

    def _backward(self, minibatch: Minibatch, packed: Packed, learns: bool, gap: bool, meter: Meter) -> None:
        """Add a micro-batch's gradient.

        Args:
            learns: whether the policy does; else the critic alone.
            gap: whether to measure the gap to the engine.
        """
        chosen = minibatch.update.in_a_loss[packed.rows][packed.valid]
        if not bool(chosen.any()):
            return
        at, policy = chosen.nonzero().flatten(), None
        if learns:
            policy = self.policy.logprobs(packed, at, self.temperature, self._entropy_gradient)
        values = None if self.critic is None else self.critic.values(packed, at - 1)
        tokens = minibatch.loss_tokens(packed, chosen, policy, values, self.policy.device)
        action = packed.take(minibatch.update.batch.action_mask, chosen).to(self.policy.device)
        if learns:
            if gap:
                add_gaps(meter, tokens.logprobs.detach()[action], tokens.sampler_logprobs[action])
            meter.add("update/entropy", tokens.entropy[action].sum(), action.sum())
        terms = self._checked.loss(self._corrected(tokens, action, meter))
        terms = add_entropy(terms, tokens, self.algorithm.config.entropy_coef)
        losses = ([terms.loss] if learns else []) + ([] if terms.value_loss is None else [terms.value_loss])
        torch.stack(losses).sum().backward()
        meter.add("update/loss", terms.loss, 0.0)
        if terms.value_loss is not None:
            meter.add("update/value_loss", terms.value_loss, 0.0)
        moved = kl_estimate(tokens.old_logprobs, tokens.logprobs.detach(), "k3")  # the old policy sampled
        for name, (total, count) in ({"kl_step": tokens.sum_of(moved)} | terms.metrics).items():
            meter.add(f"update/{name}", total, count)

    def _corrected(self, tokens: LossTokens, action: Tensor, meter: Meter) -> LossTokens:
        """The tokens with importance weights on their advantages, where the settings ask for them."""
        if self.settings.importance_clip is None:
            return tokens
        weights = truncated_importance(tokens.old_logprobs, tokens.sampler_logprobs, self.settings.importance_clip)
        meter.add("update/importance_weight", weights[action].sum(), action.sum())
        return replace(tokens, advantages=torch.where(action, tokens.advantages * weights, tokens.advantages))
