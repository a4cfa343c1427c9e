"""ReMax: REINFORCE with the return of a greedy rollout as baseline (Li et al., arXiv 2310.10505).

At every action token, A_t = the return to go from t on, less R(greedy): the return of one more episode of the same task
under the same weights, with tools, in which every token is the likeliest one. It costs one episode per task and is
never trained on. The baseline is not the group's, so that a group of one will do (`training.samples_per_task: 1`).

With a KL, r'_t = r_t - kl_coef KL_t(pi_old, pi_ref) is to go. The paper's loss is -A_t log pi; the clipped
surrogate has its gradient in the first optimiser step of a rollout and bounds the later ones. A group whose greedy
episode failed is left out (LAW 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from pydantic import Field

from agent_r1_core.contracts.algorithm import Aggregation, Algorithm, AlgorithmConfig, Role
from agent_r1_core.learning.batch import Advantages
from agent_r1_core.learning.credit import kl_in_reward, reference_kl, returns_to_go
from agent_r1_core.learning.kl import KlEstimator
from agent_r1_core.learning.loss import policy_terms
from agent_r1_core.learning.surrogate import clipped_surrogate, log_ratio

if TYPE_CHECKING:
    from agent_r1_core.learning.batch import Batch
    from agent_r1_core.learning.loss import LossTerms, LossTokens
    from agent_r1_core.trajectory import Group


class ReMax(Algorithm):
    """REINFORCE with a greedy baseline."""

    class Config(AlgorithmConfig):
        """Options of ReMax."""

        aggregation: Aggregation = "sequence_sum"
        """How token losses become one number; the paper's is `sequence_sum`."""
        clip_low: float = Field(0.2, gt=0)
        """Lower bound of the ratio is 1 - clip_low; no effect if a rollout is learnt from in a single step."""
        clip_high: float = Field(0.2, gt=0)
        """Upper bound of the ratio is 1 + clip_high; no effect if a rollout is learnt from in a single step."""
        kl_coef: float = Field(0.0, ge=0)
        """Weight of the KL to the reference in each token's reward; above 0 it needs the reference policy."""
        kl_estimator: KlEstimator = "k1"
        """What is taken from the reward: `k1` is unbiased; `k3` too, and never below 0; `k2` is biased. No effect if
        kl_coef is 0."""

    @classmethod
    def idle_options(cls, config: Any) -> dict[str, str]:
        idle = super().idle_options(config)
        if config.kl_coef == 0:
            idle["kl_estimator"] = "kl_coef is 0"
        return idle

    def roles(self) -> frozenset[Role]:
        return frozenset({"policy", "reference"} if self.config.kl_coef > 0 else {"policy"})

    def filter(self, groups: Sequence[Group]) -> list[Group]:
        return [group for group in groups if group.baseline is not None]

    def needs_greedy_baseline(self) -> bool:
        return True

    def compares_samples(self) -> bool:
        return False  # each is compared with the greedy episode

    def credits_turns(self) -> bool:
        return True

    def needs_every_trajectory(self) -> bool:
        """Only with an entropy bonus: a KL in the reward has no gradient of its own."""
        return self.needs_entropy()

    def needs_old_logprobs(self) -> bool:
        """True with a KL in the reward, which is that of the policy before the update."""
        return bool(self.config.kl_coef > 0)

    def advantages(self, batch: Batch) -> Advantages:
        """Returns to go less the greedy return; 0 where there is none to compare with."""
        mask = batch.action_mask if self.config.loss_mask else batch.response_mask
        estimator = self.config.kl_estimator
        to_go = returns_to_go(kl_in_reward(batch, self.config.kl_coef, estimator=estimator), mask, 1.0)
        compared = mask & ~batch.baseline.isnan()[:, None]
        advantages = torch.where(compared, to_go - batch.baseline[:, None], 0.0)
        return Advantages(advantages, metrics=reference_kl(batch, estimator))

    def loss(self, tokens: LossTokens) -> LossTerms:
        config = self.config
        ratio = log_ratio(tokens.logprobs, tokens.old_logprobs)
        return policy_terms(tokens, clipped_surrogate(ratio, tokens.advantages, config.clip_low, config.clip_high))
