"""The learner: turns the groups of one rollout into optimiser steps of the policy, and of the critic if there is one.

One process, one device. It keeps no hidden state: shuffling is seeded by run, step and epoch, the learning rate follows
from the step, so that `state_dict` and the policy's folder are all that an exact resume needs (LAW 10).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from agent_r1_core.contracts.algorithm import Algorithm
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.errors import ConfigError
from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.critic import Critic
from agent_r1_core.learning.kl import kl_estimate
from agent_r1_core.learning.loss import LossTokens
from agent_r1_core.learning.meter import Meter
from agent_r1_core.learning.optimiser import Optimiser
from agent_r1_core.learning.packing import Packed, micro_batches
from agent_r1_core.learning.policy import Policy, Reference
from agent_r1_core.learning.schedule import lr_factor
from agent_r1_core.learning.scoring import add_gaps, engine_agrees, fill_frozen_scores
from agent_r1_core.learning.surrogate import truncated_importance
from agent_r1_core.learning.work import Update, Work
from agent_r1_core.seeds import derive_seed
from agent_r1_core.trajectory import Group


class Learner:
    """Trains a policy.

    Args:
        algorithm: makes advantages and losses.
        critic: made from the policy where the algorithm needs one and none is given.
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
        self.optimiser = Optimiser(policy.parameters(), settings.lr, settings, "update/")
        critic_lr = settings.lr if settings.critic_lr is None else settings.critic_lr
        self.critic_optimiser = (
            Optimiser(self.critic.parameters(), critic_lr, settings, "update/critic_") if self.critic else None
        )

    def update(self, groups: Sequence[Group], step: int) -> Update:
        """Learn from one rollout.

        Args:
            groups: what the algorithm's filter kept; failed trajectories in them are left out.
            step: of the run, from 1.
        """
        batch = Batch.from_groups(groups)
        failed = float(sum(len(group.trajectories) for group in groups) - batch.size)
        if not bool(batch.action_mask.any()):
            metrics = {"trajectories": 0.0, "failed_trajectories": failed, "action_tokens": 0.0, "steps": 0.0}
            named = {f"update/{name}": value for name, value in metrics.items()}
            return Update(named, batch, torch.zeros(batch.ids.shape))
        meter = Meter()
        self.policy.seed_dropout(derive_seed(self.seed, "dropout", step))
        work = self._prepare(batch, meter)
        if bool(torch.isfinite(work.made.advantages).all() and torch.isfinite(batch.rewards).all()):
            for epoch in range(self.settings.epochs):
                for rows in self._shuffled(batch.size, step, epoch):
                    self._minibatch(work, rows, step, meter)
        else:
            meter.count("update/skipped_nonfinite", 1.0)
        metrics = meter.values() | work.metrics() | {"update/failed_trajectories": failed}
        return Update(metrics, batch, work.made.advantages)

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

    def _prepare(self, batch: Batch, meter: Meter) -> Work:
        """Scores without gradient where they are needed, then advantages."""
        loss_mask = batch.action_mask if self.algorithm.config.loss_mask else batch.response_mask
        wanted = self.algorithm.uses_old_logprobs(self.settings.epochs, self.settings.minibatches)
        if wanted and self._engine_knows_old(batch):
            batch.old_logprobs = batch.sampler_logprobs.clone()
        own_pass = wanted and batch.old_logprobs is None
        fill_frozen_scores(
            batch,
            loss_mask,
            policy=self.policy if own_pass else None,
            reference=self.reference,
            critic=self.critic,
            temperature=self.temperature,
            max_tokens=self.settings.max_tokens_per_microbatch,
            share=self._shares,
        )
        if own_pass and batch.old_logprobs is not None:
            add_gaps(meter, batch.old_logprobs[batch.action_mask], batch.sampler_logprobs[batch.action_mask])
        made = self.algorithm.advantages(batch)
        if made.advantages.shape != batch.ids.shape:
            raise ValueError(
                f"algorithm {self.algorithm.name!r} gave advantages of shape {tuple(made.advantages.shape)} for "
                f"a batch of {tuple(batch.ids.shape)}; return one number per token"
            )
        value_mask = None
        if self.critic is not None and made.value_targets is not None:
            value_mask = batch.action_mask if made.value_mask is None else made.value_mask
        return Work(batch, made, loss_mask, value_mask, gap_open=not own_pass)

    def _engine_knows_old(self, batch: Batch) -> bool:
        """Whether the engine's log-probs stand for those before the update; it has none of the environment's tokens."""
        if self.settings.old_logprobs == "auto" and self.algorithm.config.loss_mask:
            return engine_agrees(batch, self.policy, self.temperature)
        return self.settings.old_logprobs == "engine"

    @property
    def _shares(self) -> bool:
        """Whether sequences share prefixes: it gains nothing where the decoder runs one sequence at a time."""
        return self.settings.share_prefixes and self.policy.decoder.packs

    def _shuffled(self, rows: int, step: int, epoch: int) -> list[list[int]]:
        """Mini-batches of rows, as equal as can be; a single one keeps the order."""
        count = min(self.settings.minibatches, rows)
        order = list(range(rows))
        if count > 1:
            random.Random(f"{self.seed}/{step}/{epoch}").shuffle(order)
        return [order[rows * k // count : rows * (k + 1) // count] for k in range(count)]

    def _minibatch(self, work: Work, rows: list[int], step: int, meter: Meter) -> None:
        """One optimiser step."""
        work.weigh(rows, self.algorithm.config)
        skips = self.settings.skip_without_gradient and not self.algorithm.needs_every_trajectory()
        kept = work.with_advantage(rows) if skips else rows
        meter.add("update/skipped_share", float(len(rows) - len(kept)), float(len(rows)))
        learns = self.critic is None or step > self.settings.critic_warmup
        for packed in micro_batches(work.batch, kept, self.settings.max_tokens_per_microbatch, self._shares):
            self._backward(work, packed, learns, meter)
        meter.add("update/loss", 0.0, 1.0)
        if self.critic is not None:
            meter.add("update/value_loss", 0.0, 1.0)
        factor = lr_factor(step, self.settings.steps, self.settings.warmup_steps, self.settings.schedule)
        if learns:
            self.optimiser.step(factor, meter)
            work.gap_open = False
        if self.critic_optimiser is not None:
            self.critic_optimiser.step(factor, meter)

    def _backward(self, work: Work, packed: Packed, learns: bool, meter: Meter) -> None:
        """Add a micro-batch's gradient."""
        chosen = work.scored[packed.rows][packed.valid]
        if not bool(chosen.any()):
            return
        tokens = self._loss_tokens(work, packed, chosen, learns, meter)
        terms = self.algorithm.loss(tokens)
        losses = ([terms.loss] if learns else []) + ([] if terms.value_loss is None else [terms.value_loss])
        if not losses:
            raise ConfigError(
                f"algorithm {self.algorithm.name!r} has a critic and no value_loss, so training.critic_warmup would "
                "learn nothing; set training.critic_warmup=0"
            )
        torch.stack(losses).sum().backward()
        meter.add("update/loss", terms.loss, 0.0)
        if terms.value_loss is not None:
            meter.add("update/value_loss", terms.value_loss, 0.0)
        moved = kl_estimate(tokens.old_logprobs, tokens.logprobs.detach(), "k3")  # the old policy sampled
        for name, (total, count) in ({"kl_step": tokens.sum_of(moved)} | terms.metrics).items():
            meter.add(f"update/{name}", total, count)

    def _loss_tokens(self, work: Work, packed: Packed, chosen: Tensor, learns: bool, meter: Meter) -> LossTokens:
        """Run the networks over a micro-batch; `chosen` says which packed tokens are in a loss."""
        batch, device = work.batch, self.policy.device
        at = chosen.nonzero().flatten()

        def take(values: Tensor) -> Tensor:
            return packed.take(values, chosen).to(device)

        def take_some(values: Tensor | None) -> Tensor | None:
            return None if values is None else take(values)

        with torch.set_grad_enabled(learns):
            scores = self.policy.logprobs(packed, at, self.temperature)
        current = scores.logprobs.detach()
        old = current if batch.old_logprobs is None else take(batch.old_logprobs)
        sampler, action, advantages = take(batch.sampler_logprobs), take(batch.action_mask), take(work.made.advantages)
        if work.gap_open:
            add_gaps(meter, current[action], sampler[action])
        if self.settings.importance_clip is not None:
            correction = truncated_importance(old, sampler, self.settings.importance_clip)
            advantages = torch.where(action, advantages * correction, advantages)
            meter.add("update/importance_weight", correction[action].sum(), action.sum())
        meter.add("update/entropy", scores.entropy[action].sum(), action.sum())
        return LossTokens(
            logprobs=scores.logprobs,
            old_logprobs=old,
            sampler_logprobs=sampler,
            advantages=advantages,
            weights=take(work.weights),
            sequence=torch.arange(len(packed.rows)).repeat_interleave(packed.valid.sum(1))[chosen].to(device),
            reference_logprobs=take_some(batch.reference_logprobs),
            values=None if self.critic is None else self.critic.values(packed, at - 1),
            old_values=take_some(batch.values),
            value_targets=take_some(work.made.value_targets),
            value_weights=None if work.value_mask is None else take(work.value_weights),
        )
