"""The learner: turns the groups of one rollout into optimiser steps of the policy, and of the critic if there is one.

It keeps no hidden state: shuffling is seeded by run, step and epoch, the learning rate follows from the step, so that
`state` and the policy's folder are all that an exact resume needs (LAW 10). On several ranks each has a learner,
which holds its share of the weights, gets the whole rollout and computes its part of the passes; all else is the same
on all of them, metrics included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from agent_r1_core.contracts.algorithm import Algorithm
from agent_r1_core.contracts.training import OldLogprobs, TrainingConfig
from agent_r1_core.devices import on_device
from agent_r1_core.errors import ConfigError
from agent_r1_core.learning.batch import Batch
from agent_r1_core.learning.checks import CheckedAlgorithm
from agent_r1_core.learning.critic import Critic
from agent_r1_core.learning.entropy import EntropyBonus
from agent_r1_core.learning.forward import Family, crossed, forward, hinted
from agent_r1_core.learning.loss import Correction, observation_loss, update_sums
from agent_r1_core.learning.meter import Meter, Sum, detached, gap_sums, gathered
from agent_r1_core.learning.optimiser import OF_CRITIC, OF_POLICY, Optimiser
from agent_r1_core.learning.packing import Packed, passes
from agent_r1_core.learning.policy import Policy, Reference
from agent_r1_core.learning.ranks import ONE_RANK, Ranks
from agent_r1_core.learning.state import LearnerState, write_state
from agent_r1_core.learning.update import Minibatch, Update, UpdateBatch, UpdateStopped, shuffled_rows
from agent_r1_core.metrics import declared as metric
from agent_r1_core.trajectory import Group

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class Learner:
    """Trains a policy.

    Args:
        algorithm: computes advantages and losses.
        critic: begins as a copy of the policy where the algorithm needs one and none is given.
        reference: the frozen first policy, where the algorithm needs one; with adapters it is the model below them.
        temperature: of the sampling in training; log-probs are log softmax(logits / temperature) (LAW 2).
        seed: of the run; shuffles mini-batches.
        ranks: the processes that compute together. Several take the networks in shares, from the first one's whole
            copies; both must fit in its memory in float32 until the learner is made.
        records: whether updates tell of every token what the policy and the critic said of it.
        reward_weights: the recipe's, by reward; 1 where it does not say.

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
        ranks: Ranks = ONE_RANK,
        records: bool = True,
        reward_weights: Mapping[str, float] | None = None,
    ) -> None:
        roles = algorithm.roles()
        reference = policy.base_model() if reference is None and policy.lora else reference
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
        self.ranks = ranks
        self.records = records
        self.reward_weights = dict(reward_weights or {})
        for network in (policy, self.critic, self.reference):
            if isinstance(network, Policy | Critic):
                network.shard(ranks)
        self._checked = CheckedAlgorithm(algorithm)
        self._skips = settings.skip_without_gradient and not (
            algorithm.needs_every_trajectory() or algorithm.needs_entropy() or algorithm.config.observation_coef > 0
        )
        self._correction = Correction(settings, algorithm.importance_level())
        self._warmup = settings.critic_warmup if self.critic else 0
        self.optimiser = Optimiser(policy.named_parameters(), settings.lr, settings, OF_POLICY, self._warmup)
        self.critic_optimiser = None
        if self.critic is not None:
            critic_lr = settings.critic_lr or settings.lr
            self.critic_optimiser = Optimiser(self.critic.named_parameters(), critic_lr, settings, OF_CRITIC)
        self._entropy_bonus = EntropyBonus(algorithm.config)
        self.state = LearnerState(policy, self.optimiser, self.critic, self.critic_optimiser, self._entropy_bonus)
        # Sharing prefixes gains nothing where the decoder runs one sequence at a time.
        shares, budget = settings.share_prefixes and policy.decoder.packs, settings.max_tokens_per_microbatch
        self._passes = partial(passes, max_tokens=budget, share=shares, ranks=ranks)
        self._forward = partial(forward, temperature=temperature, max_tokens=budget, share=shares, ranks=ranks)

    def update(self, groups: Sequence[Group], step: int, stopped: Callable[[], bool] = lambda: False) -> Update:
        """Learn from one rollout. It may run in a thread of its own: it draws from no generator that others share.

        Args:
            groups: what the selection kept; failed trajectories in them are left out.
            step: of the run, from 1.
            stopped: asked before each micro-batch; once it says so, nothing more is computed. Of several ranks one that
                stops, or fails, leaves the others waiting until their process group's time-out: end them too.

        Raises:
            AlgorithmError: the algorithm raised, or returned what its contract does not allow.
            UpdateStopped: it was stopped; the weights are those of no step.
        """
        self._stopped = stopped
        batch = Batch.from_groups(groups, self.reward_weights)
        failed = float(sum(len(group.trajectories) for group in groups) - batch.size)
        if not bool(batch.action_mask.any()):
            return Update.of_nothing(batch, failed)
        self.policy.seed_dropout(self.seed, step)
        meter = Meter()
        update = self._prepared(batch, step, meter)
        batch, advantages = update.batch, update.advantages.advantages
        if bool(torch.isfinite(advantages).all() and torch.isfinite(batch.rewards).all()):
            for epoch in range(self.settings.epochs):
                seed = f"{self.seed}/{step}/{epoch}"
                for rows in shuffled_rows(batch.size, self.settings.minibatches, seed):
                    self._optimise(Minibatch.of(update, rows, self.algorithm.config, self._skips), step, meter)
        else:
            meter.add(metric.UPDATE_SKIPPED_NONFINITE, 1.0)
        if self.critic is None:
            meter.add(metric.UPDATE_BOOTSTRAPPED_WITHOUT_CRITIC, float(batch.bootstrapped.sum()))
        metrics = meter.values() | update.statistics() | {metric.UPDATE_FAILED_TRAJECTORIES: failed}
        if self.algorithm.config.entropy_target is not None:
            metrics[metric.UPDATE_ENTROPY_COEF] = self._entropy_bonus.weight
            self._entropy_bonus.move(metrics.get(metric.UPDATE_ENTROPY))
        return Update(metrics, update.numbers(self.ranks), update.advantages.warnings)

    def score(self, families: Sequence[Family]) -> list[Tensor]:
        """log p(action | prompt) of every action of a family after every one of its prompts, summed over the action's
        tokens: float64 [actions, prompts] for each family, nats, without gradient. What the prompts of a family have in
        common is computed once."""
        batch = crossed(families)
        outputs = self._forward(batch, batch.action_mask, self.policy, None, None, old="learner")
        assert outputs.own_logprobs is not None
        sizes = [(len(prompts), len(actions)) for prompts, actions in families]
        parts = outputs.own_logprobs.double().sum(1).split([prompts * actions for prompts, actions in sizes])
        return [part.reshape(size).T for part, size in zip(parts, sizes, strict=True)]

    def _prepared(self, batch: Batch, step: int, meter: Meter) -> UpdateBatch:
        """The batch with what the networks say of it before the update, and with its advantages."""
        loss_mask = batch.action_mask if self.algorithm.config.loss_mask else batch.response_mask
        learns, environment = step > self._warmup, not self.algorithm.config.loss_mask
        fresh = batch.fresh(step - 1) if self._correction.ahead else batch.sampled
        # The engine has no log-probs of the environment's tokens; of actions they will do while the critic warms up.
        uses = self.algorithm.uses_old_logprobs(self.settings.epochs, self.settings.minibatches)
        uses = uses and not self._correction.truncates if learns else environment
        source = "learner" if environment or self._correction.ahead else self.settings.old_logprobs
        old = source if uses or self.algorithm.needs_old_logprobs() else None
        told = self.algorithm.hint() is not None
        networks = self.policy, None if told else self.reference, self.critic
        compare = not learns or self.policy.drops
        outputs = self._forward(batch, loss_mask, *networks, old=old, compare=compare, fresh=fresh)
        if outputs.compared is not None:
            meter.add_all(gap_sums(*outputs.compared))
        batch = replace(
            batch,
            old_logprobs=outputs.old_logprobs,
            reference_logprobs=self._told_logprobs(batch) if told else outputs.reference_logprobs,
            values=outputs.values,
            bootstrap=batch.bootstrap if outputs.bootstrap is None else outputs.bootstrap,
        )
        advantages = self._checked.advantages(batch, loss_mask)
        value_mask = None
        if self.critic is not None:
            value_mask = batch.action_mask if advantages.value_mask is None else advantages.value_mask
        observed = None
        if learns and self.algorithm.config.observation_coef > 0:
            observed = batch.response_mask & ~batch.action_mask
        own, taken = outputs.own_logprobs, self.records and not self.policy.drops
        return UpdateBatch(batch, advantages, loss_mask, value_mask, fresh, own, self.records, taken, observed)

    def _told_logprobs(self, batch: Batch) -> Tensor:
        """log p [n, T] of each action token, by the reference, or else the policy, behind prompts that hold a hint."""
        told = hinted(batch)
        old: OldLogprobs | None = "learner" if self.reference is None else None
        outputs = self._forward(told, told.action_mask, self.policy, self.reference, None, old=old)
        found = outputs.own_logprobs if self.reference is None else outputs.reference_logprobs
        assert found is not None
        logprobs = torch.zeros(batch.ids.shape)
        logprobs[batch.action_mask] = found[told.action_mask]
        return logprobs

    def _optimise(self, minibatch: Minibatch, step: int, meter: Meter) -> None:
        """One optimiser step."""
        update, rows, kept = minibatch.update, minibatch.rows, minibatch.kept
        meter.add(metric.UPDATE_SKIPPED_SHARE, float(len(rows) - len(kept)), float(len(rows)))
        meter.add(metric.UPDATE_MEASURED_SHARE, update.loss_mask[kept].sum(), update.loss_mask[rows].sum())
        learns, compares, own = step > self._warmup, metric.LOGPROB_GAP not in meter.sums, list[dict[str, Sum]]()
        for packed in self._passes(update.batch, kept):
            if self._stopped():
                raise UpdateStopped(f"the update of step {step} was stopped; resume from the last checkpoint")
            own.append(self._backward(minibatch, packed, learns, compares))
        for sums in gathered(own, self.ranks):
            meter.add_all(sums)
        meter.add(metric.UPDATE_LOSS, 0.0, 1.0)
        if learns:
            update.close(kept)
            self.optimiser.step(step, meter)
        if self.critic_optimiser is not None:
            meter.add(metric.VALUE_LOSS, 0.0, 1.0)
            self.critic_optimiser.step(step, meter)

    def _backward(self, minibatch: Minibatch, packed: Packed, learns: bool, compares: bool) -> dict[str, Sum]:
        """Add a micro-batch's gradient; returns its metrics.

        Args:
            learns: whether the policy does; else the critic alone.
            compares: whether to measure the gap to the engine.
        """
        chosen = minibatch.update.in_a_loss[packed.rows][packed.valid]
        at, policy = chosen.nonzero().flatten(), None
        if not len(at) and self.ranks.size == 1:
            return {}
        if learns:
            policy = self.policy.logprobs(packed, at, self.temperature, self.algorithm.needs_entropy())
        values = None if self.critic is None else self.critic.values(packed, at - 1)
        if not len(at):  # other ranks compute gradients meanwhile, to which this one adds zeros
            outputs = ([] if policy is None else [policy.logprobs]) + ([] if values is None else [values])
            torch.cat(outputs).sum().backward()
            return {}
        device, sums, masks = self.policy.device, dict[str, Sum](), self.settings.mismatch_mask is not None
        tokens = minibatch.loss_tokens(packed, chosen, policy, values, device, segments=masks)
        if learns:
            minibatch.update.take(packed, at, tokens.logprobs)
            action = (packed.take(minibatch.update.batch.turn, chosen) >= 0).nonzero().flatten()
            sums[metric.UPDATE_ENTROPY] = tokens.entropy[on_device(action, device)].sum(), torch.tensor(len(action))
        if learns and compares:
            compared = on_device(packed.take(minibatch.update.fresh, chosen).nonzero().flatten(), device)
            sums |= gap_sums(tokens.logprobs.detach()[compared], tokens.sampler_logprobs[compared])
        tokens, weights = self._correction.corrected(tokens)
        sums |= weights
        terms, bonus = self._checked.loss(tokens), self._entropy_bonus.weight
        if bonus > 0:
            terms = replace(terms, loss=terms.loss - bonus * (tokens.entropy * tokens.weights).sum())
        losses = ([terms.loss] if learns else []) + ([] if terms.value_loss is None else [terms.value_loss])
        if learns and tokens.observation_weights is not None:
            predicted, told = observation_loss(tokens.logprobs, tokens.observation_weights)
            losses.append(self.algorithm.config.observation_coef * predicted)
            sums |= told
        torch.stack(losses).sum().backward()
        return detached(sums | update_sums(terms, self._correction.measured(tokens)))


class CapturedState:
    """The policy's weights and the learner's state at one moment, to be written while training goes on.

    A copy takes 12 bytes of main memory for each parameter of the policy (its weight and two moments) and of the
    critic; with LoRA the merged weights, and 12 bytes for each parameter of the adapters. Of several ranks each copies
    its own shards; only the first one needs the policy's weights.

    Args:
        copy: False: look at the learner itself, which must not learn until all is written.
    """

    def __init__(self, learner: Learner, copy: bool = True) -> None:
        self._policy = learner.policy
        weights = learner.policy.snapshot("cpu") if copy else learner.policy.weights()
        self._weights = weights if learner.ranks.rank == 0 else None
        state = learner.state.tensors()
        self._state = {name: tensor.to("cpu", copy=True) for name, tensor in state.items()} if copy else state

    def write(self, folder: Path, group: ProcessGroup | None = None) -> None:
        """Write `trainer/`, each rank its shards, and `policy/`, a plain Hugging Face folder, the first rank alone.

        Args:
            group: see `write_state`.

        Raises:
            OSError, RuntimeError, SafetensorError: writing fails.
        """
        write_state(self._state, folder / "trainer", group)
        if self._weights is not None:
            self._policy.save(folder / "policy", weights=self._weights)
