"""On-policy distillation: a teacher judges every token that the policy samples (GKD, Agarwal et al., arXiv 2306.13649).

A_t = log pi_teacher(t) - log pi_old(t) at every action token, a constant of the loss, with the clipped surrogate: in
the first optimiser step of a rollout the gradient is that of KL(policy || teacher) per token, what follows the token
left out. No reward has a part in it, and no group is needed (`training.samples_per_task: 1`).

The teacher reads the policy's ids as they are, so it must have the same tokenizer; it is scored at the temperature of
sampling, as the policy is. It takes the place of the reference, frozen, in the learner's memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from pydantic import Field

from agent_r1_core import Metric
from agent_r1_core.contracts.algorithm import Algorithm, AlgorithmConfig, Role
from agent_r1_core.errors import ConfigError
from agent_r1_core.learning.batch import Advantages
from agent_r1_core.learning.credit import kl_in_reward
from agent_r1_core.learning.loss import policy_terms
from agent_r1_core.learning.masking import masked_mean
from agent_r1_core.learning.surrogate import clipped_surrogate, log_ratio

if TYPE_CHECKING:
    from agent_r1_core.learning.batch import Batch
    from agent_r1_core.learning.loss import LossTerms, LossTokens


class Distillation(Algorithm):
    """On-policy distillation."""

    metrics = (Metric("kl_teacher", "estimated KL(policy before the update || teacher)", unit="nats", better="lower"),)

    class Config(AlgorithmConfig):
        """Options of on-policy distillation."""

        teacher: str | None = None
        """The model to learn from, as `model.name` names one: a run, a folder, a bundled model. There must be one."""
        clip_low: float = Field(0.2, gt=0)
        """Lower bound of the ratio is 1 - clip_low; no effect if a rollout is learnt from in a single step."""
        clip_high: float = Field(0.2, gt=0)
        """Upper bound of the ratio is 1 + clip_high; no effect if a rollout is learnt from in a single step."""

    @classmethod
    def idle_options(cls, config: Any) -> dict[str, str]:
        return super().idle_options(config) | {"loss_mask": "the teacher judges actions alone"}

    def roles(self) -> frozenset[Role]:
        return frozenset({"policy", "reference"})

    def reference_model(self) -> str:
        """The teacher; a ConfigError where there is none."""
        if self.config.teacher is None:
            raise ConfigError("the algorithm distillation has no teacher; name a model in algorithm.teacher")
        return str(self.config.teacher)

    def compares_samples(self) -> bool:
        return False

    def needs_spread(self) -> bool:
        return False

    def needs_old_logprobs(self) -> bool:
        return True

    def advantages(self, batch: Batch) -> Advantages:
        """How much likelier the teacher finds each action token than the policy did."""
        likelier = kl_in_reward(batch, 1.0, torch.zeros_like(batch.rewards))
        return Advantages(likelier, metrics={"kl_teacher": -float(masked_mean(likelier, batch.action_mask))})

    def loss(self, tokens: LossTokens) -> LossTerms:
        config = self.config
        ratio = log_ratio(tokens.logprobs, tokens.old_logprobs)
        return policy_terms(tokens, clipped_surrogate(ratio, tokens.advantages, config.clip_low, config.clip_high))
