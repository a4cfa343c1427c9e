"""PPO: a critic values states, GAE credits actions (Schulman et al., arXiv 1707.06347, 1506.02438).

Over a trajectory's action tokens i_1..i_K alone, delta_k = r_k + gamma V_{k+1} - V_k and
A_k = delta_k + gamma lam A_{k+1}, with V_{k+1} the value at the next action token, however many environment tokens lie
between (the advantage mask of Agent-R1, 2511.14460); after a turn's last action token, where its process reward
stands, gamma is gamma x gamma_turn. Advantages are whitened over the batch. The surrogate is clipped, doubly where the
advantage is negative (1912.09729), and so is the value loss.

The critic's targets, A_k + V_k, may have a lambda of their own, `lam_critic` (VC-PPO, 2503.01491, with 1: the return,
so that the critic does not learn from itself), and the advantages one for each trajectory, `lam_length`:
lam = 1 - 1 / (alpha l) with l its credited tokens (VAPO, 2504.05118, with alpha .05).

With `gae: turn` (preset `turn_gae`) GAE runs on two levels, as in RAGEN (2504.20073): over turns k, with V_k the value
at the turn's first action token and r_k the turn's reward, d_k = r_k + gamma_turn V_{k+1} - V_k and
A_k = d_k + gamma_turn lam_turn A_{k+1}; then over the tokens of each turn alone, whose last one earns A_k + V_k. A turn
is what the trajectory calls one, rewarded or not. RAGEN's own code takes V_k at the turn's last action token, which is
the same with lam_turn 1: A_k + V_k is then the discounted sum of the rewards from turn k on.

The preset `starpo_s` is StarPO-S (2504.20073) with PPO's advantages: the quarter of the groups with the largest std of
their returns, a wider upper clip and no KL.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from agent_r1_core import Metric
from agent_r1_core.contracts.algorithm import Algorithm, DenseConfig, Role
from agent_r1_core.learning.batch import Advantages
from agent_r1_core.learning.credit import gae, kl_in_reward, lam_of_length, reference_kl
from agent_r1_core.learning.kl import KlEstimator
from agent_r1_core.learning.loss import add_kl, policy_terms
from agent_r1_core.learning.masking import explained_variance, whiten
from agent_r1_core.learning.process import scaled_rewards, turn_discounts
from agent_r1_core.learning.surrogate import clipped_surrogate, log_ratio, value_loss
from agent_r1_core.learning.turns import turn_level_gae

if TYPE_CHECKING:
    from torch import Tensor

    from agent_r1_core.learning.batch import Batch
    from agent_r1_core.learning.loss import LossTerms, LossTokens


class PPO(Algorithm):
    """Proximal policy optimisation."""

    metrics = (
        Metric("value_mean", "mean of the critic's values at the credited tokens before the update"),
        Metric(
            "value_explained_variance",
            "1 - Var(target - value) / Var(target): 1 is a perfect critic, 0 a constant one",
            better="higher",
        ),
    )

    class Config(DenseConfig):
        """Options of PPO; with `gae: turn`, `gamma` discounts within a turn alone."""

        gae: Literal["token", "turn"] = "token"
        """`token`: GAE over a trajectory's action tokens. `turn`: over its turns, then over the tokens of each turn."""
        lam: float = Field(1.0, ge=0, le=1)
        """Of GAE over tokens: 1 trusts returns, 0 trusts the critic."""
        lam_critic: float | None = Field(None, ge=0, le=1)
        """In place of `lam` and `lam_turn` in the critic's targets; with 1 they are returns. null: the same."""
        lam_length: float | None = Field(None, gt=0)
        """The alpha of lam = 1 - 1 / (alpha l), at least 0, with l a trajectory's credited tokens, in place of `lam`.
        null: `lam`, whatever the length. No effect with `gae: turn`."""
        lam_turn: float = Field(1.0, ge=0, le=1)
        """Of GAE over turns: 1 trusts returns, 0 trusts the critic; no effect with `gae: token`."""
        whiten: bool | Literal["scale"] = True
        """Shift and scale advantages to mean 0 and variance 1 over the batch's credited tokens; `scale`: no shift, so
        that an advantage of 0 stays 0."""
        clip_low: float = Field(0.2, gt=0)
        """Lower bound of the ratio is 1 - clip_low; no effect if a rollout is learnt from in a single step."""
        clip_high: float = Field(0.2, gt=0)
        """Upper bound of the ratio is 1 + clip_high; no effect if a rollout is learnt from in a single step."""
        dual_clip: float | None = Field(3.0, gt=1)
        """Bound of the ratio at tokens with negative advantage; null: none."""
        value_clip: float | None = Field(0.5, gt=0)
        """How far a value may move from its old one within an update; null: without limit. No effect if a rollout is
        learnt from in a single step."""
        kl_coef: float = Field(0.0, ge=0)
        """Weight of the KL to the reference; above 0 it needs the reference policy."""
        kl_in: Literal["reward", "loss"] = "reward"
        """Where the KL stands: in each token's reward, or in the loss, as in RAGEN's runs. No effect if kl_coef is
        0."""
        kl_estimator: KlEstimator | None = None
        """null: `k1` in the reward, where `k3` is unbiased too and never below 0; `k2` in the loss, where `k1` is
        refused. No effect if kl_coef is 0."""
        advantage_mask: bool = True
        """Credit action tokens only. Off, GAE also runs over the environment's tokens: for ablations. While it is on,
        `loss_mask` has no effect: the environment's tokens have no advantage to learn from. No effect with
        `gae: turn`, since the environment's tokens belong to no turn."""

        @model_validator(mode="after")
        def _k1_is_no_loss(self) -> Self:
            if self.kl_in == "loss" and self.kl_estimator == "k1":
                raise ValueError(
                    "kl_estimator is k1, and kl_in is loss, where the gradient of k1 is zero in expectation; choose k2 "
                    "or k3"
                )
            return self

    @classmethod
    def idle_options(cls, config: Any) -> dict[str, str]:
        """Options without effect."""
        idle = super().idle_options(config)
        if config.kl_coef == 0:
            idle |= {"kl_in": "kl_coef is 0", "kl_estimator": "kl_coef is 0"}
        if config.gae == "token":
            idle["lam_turn"] = "gae is token"
            if config.lam_length is not None:
                idle["lam"] = "lam_length says what lambda is"
        else:
            idle["lam_length"] = "gae is turn"
            idle |= dict.fromkeys(("advantage_mask", "loss_mask"), "gae is turn, and only actions belong to a turn")
        if config.gae == "token" and config.advantage_mask:
            idle["loss_mask"] = "advantage_mask is on, so the environment's tokens have no advantage to learn from"
        return idle

    def roles(self) -> frozenset[Role]:
        """Policy and critic, and the reference if there is a KL."""
        return frozenset({"policy", "critic", "reference"} if self.config.kl_coef > 0 else {"policy", "critic"})

    def compares_samples(self) -> bool:
        """No: the critic is the baseline."""
        return False

    def trusts_critic(self) -> bool:
        """True with a lambda below 1 in the advantages."""
        config = self.config
        return bool(config.lam < 1 or (config.lam_turn < 1 if config.gae == "turn" else config.lam_length is not None))

    def needs_old_logprobs(self) -> bool:
        """True with a KL in the reward, which is that of the policy before the update."""
        return bool(self.config.kl_coef > 0 and self.config.kl_in == "reward")

    def advantages(self, batch: Batch) -> Advantages:
        """GAE over the tokens in the mask, or over turns, whitened; the critic's targets are A + V before that."""
        if batch.values is None:
            raise ValueError("ppo's advantages need the critic's values; fill batch.values")
        config = self.config
        mask = batch.action_mask if config.advantage_mask or config.gae == "turn" else batch.response_mask
        rewards = scaled_rewards(batch, config.process_scale)
        estimator: KlEstimator = config.kl_estimator or "k1"
        if config.kl_in == "reward":
            rewards = kl_in_reward(batch, config.kl_coef, rewards, estimator)
        by_length = config.lam_length is not None and config.gae == "token"
        lam = lam_of_length(mask, config.lam_length) if by_length else config.lam
        advantages, targets = self._credit(batch, rewards, mask, lam, config.lam_turn)
        if config.lam_critic is not None:
            _, targets = self._credit(batch, rewards, mask, config.lam_critic, config.lam_critic)
        metrics = {
            "value_mean": float(batch.values[mask].mean()),
            "value_explained_variance": explained_variance(batch.values, targets, mask),
            **(reference_kl(batch, estimator) if config.kl_in == "reward" else {}),
        }
        final = whiten(advantages, mask, shift=config.whiten != "scale") if config.whiten else advantages
        return Advantages(final, value_targets=targets, value_mask=mask, metrics=metrics)

    def _credit(
        self, batch: Batch, rewards: Tensor, mask: Tensor, lam: float | Tensor, lam_turn: float
    ) -> tuple[Tensor, Tensor]:
        """Advantages and value targets with these lambdas."""
        config, values, after = self.config, batch.values, batch.bootstrap
        assert values is not None
        if config.gae == "turn":
            discounts = config.gamma, lam, config.gamma_turn, lam_turn
            return turn_level_gae(rewards, values, batch.turn, *discounts, after)
        gamma = turn_discounts(batch.turn, config.gamma, config.gamma_turn)
        return gae(rewards, values, mask, gamma, lam, after)

    def loss(self, tokens: LossTokens) -> LossTerms:
        """The clipped surrogate, the clipped value loss and, with `kl_in: loss`, the KL."""
        config = self.config
        ratio = log_ratio(tokens.logprobs, tokens.old_logprobs)
        surrogate = clipped_surrogate(ratio, tokens.advantages, config.clip_low, config.clip_high, config.dual_clip)
        terms = policy_terms(tokens, surrogate)
        if config.kl_in == "loss":
            terms = add_kl(terms, tokens, config.kl_coef, config.kl_estimator or "k2")
        values, old, targets, weights = tokens.values, tokens.old_values, tokens.value_targets, tokens.value_weights
        if values is None or old is None or targets is None or weights is None:
            raise ValueError(
                "ppo's loss needs values, old values, targets and their weights; give the learner a critic"
            )
        return replace(terms, value_loss=(value_loss(values, old, targets, config.value_clip) * weights).sum())
