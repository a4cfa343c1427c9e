"""REINFORCE++: PPO's clipped surrogate without a critic, normalised over the batch (Hu et al., arXiv 2501.03262).

Without baseline: r'_t = r_t - kl_coef (log pi_old - log pi_ref), A_t = the discounted return to go of r' over action
tokens, whitened over the batch's action tokens; a turn's process reward stands at its last action token, and gamma
there is gamma x gamma_turn. With baseline: A_i = R_i - mean_G at every action token, whitened in the same way, and the
KL as a k2 loss; R_i sums the process rewards and the outcome; groups without spread keep advantage 0 and are excluded
from the statistics (LAW 7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from agent_r1_core.contracts.algorithm import Algorithm, DenseConfig, Role
from agent_r1_core.learning.batch import Advantages
from agent_r1_core.learning.credit import kl_in_reward, reference_kl, returns_to_go, spread_over
from agent_r1_core.learning.groups import group_mean_advantage, group_statistics
from agent_r1_core.learning.kl import KlEstimator, LossKlEstimator
from agent_r1_core.learning.loss import add_kl, policy_terms
from agent_r1_core.learning.masking import whiten
from agent_r1_core.learning.process import scaled_rewards, turn_discounts
from agent_r1_core.learning.surrogate import clipped_surrogate, log_ratio

if TYPE_CHECKING:
    from agent_r1_core.learning.batch import Batch
    from agent_r1_core.learning.loss import LossTerms, LossTokens


class ReinforcePP(Algorithm):
    """REINFORCE++."""

    class Config(DenseConfig):
        """Options of REINFORCE++; with `baseline`, `gamma`, `gamma_turn` and `process_scale` have no effect."""

        baseline: bool = False
        """Compare a return with its group's mean (REINFORCE++-baseline)."""
        clip_low: float = Field(0.2, gt=0)
        """Lower bound of the ratio is 1 - clip_low; no effect if a rollout is learnt from in a single step."""
        clip_high: float = Field(0.2, gt=0)
        """Upper bound of the ratio is 1 + clip_high; no effect if a rollout is learnt from in a single step."""
        dual_clip: float | None = Field(None, gt=1)
        """Bound of the ratio at tokens with negative advantage; null: none."""
        kl_coef: float = Field(0.0, ge=0)
        """Weight of the KL to the reference in the reward or, with `baseline`, in the loss. Above 0 it needs the
        reference policy."""
        kl_estimator: KlEstimator | None = None
        """null, the paper's: `k1` in the reward; with `baseline` `k2`, whose gradient as a loss is that of the KL in
        the first pass. `k1` is refused as a loss. No effect if kl_coef is 0."""

        @model_validator(mode="after")
        def _k1_is_no_loss(self) -> Self:
            if self.baseline and self.kl_estimator == "k1":
                raise ValueError(
                    "kl_estimator is k1, and with baseline the KL is a loss, where the gradient of k1 is zero in "
                    "expectation; choose k2 or k3"
                )
            return self

    @classmethod
    def idle_options(cls, config: Any) -> dict[str, str]:
        idle = super().idle_options(config)
        if config.kl_coef == 0:
            idle["kl_estimator"] = "kl_coef is 0"
        if config.baseline:
            one_return = "with baseline a trajectory has one undiscounted return, the sum of its rewards"
            idle |= dict.fromkeys(("gamma", "gamma_turn", "process_scale"), one_return)
        return idle

    def roles(self) -> frozenset[Role]:
        return frozenset({"policy", "reference"} if self.config.kl_coef > 0 else {"policy"})

    def credits_turns(self) -> bool:
        return not self.config.baseline

    def compares_samples(self) -> bool:
        return bool(self.config.baseline)

    def needs_every_trajectory(self) -> bool:
        """True with a KL in the loss; one in the reward has no gradient of its own."""
        return bool(self.config.baseline and self.config.kl_coef > 0) or self.needs_entropy()

    def needs_old_logprobs(self) -> bool:
        """True with a KL in the reward, which is that of the policy before the update."""
        return bool(self.config.kl_coef > 0 and not self.config.baseline)

    def advantages(self, batch: Batch) -> Advantages:
        """Returns to go, or returns less the group's mean, whitened."""
        mask = batch.action_mask if self.config.loss_mask else batch.response_mask
        if self.config.baseline:
            varied = mask & group_statistics(batch.returns, batch.group).informative[:, None]
            return Advantages(whiten(spread_over(group_mean_advantage(batch.returns, batch.group), varied), varied))
        estimator: KlEstimator = self.config.kl_estimator or "k1"
        rewards = scaled_rewards(batch, self.config.process_scale)
        rewards = kl_in_reward(batch, self.config.kl_coef, rewards, estimator)
        gamma = turn_discounts(batch.turn, self.config.gamma, self.config.gamma_turn)
        return Advantages(whiten(returns_to_go(rewards, mask, gamma), mask), metrics=reference_kl(batch, estimator))

    def loss(self, tokens: LossTokens) -> LossTerms:
        """The clipped surrogate and, with `baseline`, the KL."""
        config = self.config
        ratio = log_ratio(tokens.logprobs, tokens.old_logprobs)
        surrogate = clipped_surrogate(ratio, tokens.advantages, config.clip_low, config.clip_high, config.dual_clip)
        terms = policy_terms(tokens, surrogate)
        estimator: LossKlEstimator = config.kl_estimator or "k2"
        return add_kl(terms, tokens, config.kl_coef, estimator) if config.baseline else terms
