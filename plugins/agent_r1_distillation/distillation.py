"""On-policy distillation: a teacher judges every token that the policy samples (GKD, Agarwal et al., arXiv 2306.13649).

A_t = log pi_teacher(t) - log pi_old(t) at every action token, a constant of the loss, with the clipped surrogate: in
the first optimiser step of a rollout the gradient is that of KL(policy || teacher) per token, what follows the token
left out. No reward has a part in it, and no group is needed (`training.samples_per_task: 1`).

The teacher reads the policy's ids as they are, so it must have the same tokenizer; it is scored at the temperature of
sampling, as the policy is. It takes the place of the reference, frozen, in the learner's memory. Or it is the policy
itself, which knows a hint (OPSD, arXiv 2601.18734): the same ids behind a prompt that holds it, before the update.

Over several turns what the teacher rejects may come from a hint that it cannot use. SDAR (arXiv 2605.15155) leaves
rewards in the lead and opens a gate where the teacher agrees. Its loss is `coef` g_t (log pi_teacher(t) - log pi(t)),
g_t = sigmoid(beta (log pi_teacher(t) - log pi(t))) a constant, so that the advantage is

    A_t = (R - mean_G) / (std_G + eps) + coef sigmoid(beta (log pi_teacher(t) - log pi_old(t))).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from pydantic import Field

from agent_r1_core import Metric
from agent_r1_core.contracts.algorithm import Algorithm, AlgorithmConfig, Role
from agent_r1_core.errors import ConfigError
from agent_r1_core.learning.batch import Advantages
from agent_r1_core.learning.credit import kl_in_reward, spread_over
from agent_r1_core.learning.groups import group_normalised_advantage
from agent_r1_core.learning.loss import policy_terms
from agent_r1_core.learning.masking import masked_mean
from agent_r1_core.learning.surrogate import clipped_surrogate, log_ratio

if TYPE_CHECKING:
    from agent_r1_core.learning.batch import Batch
    from agent_r1_core.learning.loss import LossTerms, LossTokens


_EPS = 1e-6
"""Added to a group's standard deviation."""
_UNHINTED = (
    "no task of this step has what algorithm.hint names, so that the teacher knows no more than the policy; name "
    "{answers}, or keys of the tasks' metadata"
)


class Distillation(Algorithm):
    """On-policy distillation, from a teacher or from the policy itself with a hint."""

    metrics = (
        Metric("kl_teacher", "estimated KL(policy before the update || teacher)", unit="nats", better="lower"),
        Metric("hinted", "share of action tokens whose teacher knew the hint, with `algorithm.hint`", unit="share"),
    )

    class Config(AlgorithmConfig):
        """Options of on-policy distillation."""

        teacher: str | None = None
        """The model to learn from, as `model.name` names one: a run, a folder, a bundled model. null: the policy as it
        is before the update, which must then have a hint."""
        hint: str | None = Field(None, min_length=1)
        """What the teacher reads at the end of a task's first observation, and the policy does not. `{answers}` stands
        for the task's answers, `{key}` for an entry of its metadata; a task that lacks one is judged without a hint, as
        are contexts that begin later."""
        gate: float | None = Field(None, gt=0)
        """beta, per nat, of SDAR's gate, 5 there: the teacher's part of the advantage is sigmoid(beta d) in place of
        the difference d of the log-probs, so that no token is pushed away. null: there is no gate."""
        teacher_coef: float = Field(1.0, gt=0)
        """Weight of the teacher's part of the advantage."""
        reward_coef: float = Field(0.0, ge=0)
        """Weight of GRPO's advantage beside it, a return compared with those of its group; 0: no reward has a part."""
        clip_low: float = Field(0.2, gt=0)
        """Lower bound of the ratio is 1 - clip_low; no effect if a rollout is learnt from in a single step."""
        clip_high: float = Field(0.2, gt=0)
        """Upper bound of the ratio is 1 + clip_high; no effect if a rollout is learnt from in a single step."""

    @classmethod
    def idle_options(cls, config: Any) -> dict[str, str]:
        return super().idle_options(config) | {"loss_mask": "the teacher judges actions alone"}

    def roles(self) -> frozenset[Role]:
        alone = self.config.teacher is None and self.config.hint is not None
        return frozenset({"policy"} if alone else {"policy", "reference"})

    def reference_model(self) -> str | None:
        """The teacher, None where it is the policy; a ConfigError where there is none."""
        if self.config.teacher is None and self.config.hint is None:
            raise ConfigError(
                "the algorithm distillation has no teacher; name a model in algorithm.teacher, or let the policy teach "
                'itself by a hint, as algorithm.hint="The answer is {answers}."'
            )
        teacher: str | None = self.config.teacher
        return teacher

    def hint(self) -> str | None:
        hint: str | None = self.config.hint
        return hint

    def compares_samples(self) -> bool:
        return bool(self.config.reward_coef > 0)

    def needs_spread(self) -> bool:
        return bool(self.config.reward_coef > 0)

    def needs_old_logprobs(self) -> bool:
        return True

    def advantages(self, batch: Batch) -> Advantages:
        """How much likelier the teacher finds each action token than the policy did, or its gate; and the rewards'."""
        config, mask = self.config, batch.action_mask
        likelier = kl_in_reward(batch, 1.0, torch.zeros_like(batch.rewards))
        metrics = {"kl_teacher": -float(masked_mean(likelier, mask))}
        warnings: tuple[str, ...] = ()
        if config.hint is not None:
            hinted = sum(sum(one.segments[0].mask) for one in batch.trajectories if one.hinted)
            metrics["hinted"] = hinted / int(mask.sum())
            warnings = () if metrics["hinted"] else (_UNHINTED,)
        taught = likelier if config.gate is None else torch.where(mask, torch.sigmoid(config.gate * likelier), 0.0)
        advantages = config.teacher_coef * taught
        if config.reward_coef:
            earned = group_normalised_advantage(batch.returns, batch.group, _EPS)
            advantages = advantages + config.reward_coef * spread_over(earned, mask)
        return Advantages(advantages, metrics=metrics, warnings=warnings)

    def loss(self, tokens: LossTokens) -> LossTerms:
        config = self.config
        ratio = log_ratio(tokens.logprobs, tokens.old_logprobs)
        return policy_terms(tokens, clipped_surrogate(ratio, tokens.advantages, config.clip_low, config.clip_high))
