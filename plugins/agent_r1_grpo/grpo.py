"""GRPO: compares the return of a trajectory with those of its group (Shao et al., arXiv 2402.03300).

A_i = (R_i - mean_G) / (std_G + eps) at every action token of trajectory i, with the clipped surrogate of PPO and, if
asked for, a KL to the reference in the loss (learning/kl.py says what its gradient is). Options turn it into Dr. GRPO
(2503.20783), DAPO (2503.14476), RLOO (2402.14740), GSPO (2507.18071), CISPO (2506.13585), MaxRL (2602.02710), GDPO
(2601.05242), Tree-GRPO (2509.21240) and StarPO with these advantages (2504.20073), which have presets, or give them
turn-level ratios (2511.20718) or DPPO's loss (2602.04879).

R_i is the trajectory's outcome plus the sum of its process rewards: which turn earned them makes no difference. A group
is one task under one policy version (LAW 7); one without spread has advantage 0. GDPO takes each reward's part of R_i
by itself: A_i is the whitened sum over rewards k of w_k (r_ik - mean_G r_k) / (std_G r_k + eps). With `trees` episodes
of a group branch off from others, and A_i is the sum of what the formula gives among the group and among its tree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from agent_r1_core.contracts.algorithm import Aggregation, Algorithm, AlgorithmConfig, Role
from agent_r1_core.contracts.training import ImportanceLevel
from agent_r1_core.learning.batch import Advantages
from agent_r1_core.learning.credit import spread_over
from agent_r1_core.learning.groups import (
    decoupled_advantage,
    group_mean_advantage,
    group_normalised_advantage,
    leave_one_out_advantage,
    mean_scaled_advantage,
    tree_groups,
)
from agent_r1_core.learning.kl import LossKlEstimator
from agent_r1_core.learning.loss import add_kl, policy_terms
from agent_r1_core.learning.surrogate import cispo_surrogate, clipped_surrogate, dppo_surrogate, log_ratio

if TYPE_CHECKING:
    from torch import Tensor

    from agent_r1_core.learning.batch import Batch
    from agent_r1_core.learning.loss import LossTerms, LossTokens


class GRPO(Algorithm):
    """Group-relative policy optimisation."""

    class Config(AlgorithmConfig):
        """Options of GRPO and its relatives."""

        aggregation: Aggregation = "sequence_mean"
        """How token losses become one number; the paper's is `sequence_mean`."""
        clip_low: float = Field(0.2, gt=0)
        """Lower bound of the ratio is 1 - clip_low; no effect if a rollout is learnt from in a single step."""
        clip_high: float = Field(0.2, gt=0)
        """Upper bound of the ratio is 1 + clip_high; no effect if a rollout is learnt from in a single step."""
        dual_clip: float | None = Field(None, gt=1)
        """Bound of the ratio at tokens with negative advantage; null: none. An effect with `objective: clip` alone."""
        baseline: Literal["mean", "leave_one_out"] = "mean"
        """What a return is compared with: its group's mean, or the mean of the other returns."""
        normalise_std: bool = True
        """Divide by the group's standard deviation; no effect with `baseline: leave_one_out`, which never does, or with
        `normalise_mean`."""
        normalise_mean: bool = False
        """Divide by the group's mean |R| in place of its standard deviation (MaxRL, for returns that are never
        negative): the rarer success is, the more each counts. No effect with `baseline: leave_one_out`."""
        decouple_rewards: bool = False
        """Normalise each reward by itself in its group, then add them by their weights and whiten the sums over the
        trajectories of the update (GDPO): a reward with a small spread is not drowned by the others."""
        trees: int = Field(0, ge=0)
        """How many episodes of a task begin at its start. The others of `training.samples_per_task` branch off from
        these in turn, each behind a turn drawn at random that is not the last: their environment gets the same actions
        again, no engine is asked for them, and they are trained in every branch. The environment and its tools must
        answer alike each time. Where there is nothing to repeat (one turn alone, several players, a failure) they begin
        at the start. 0: all begin there, and there is no advantage within trees."""
        eps: float = Field(1e-6, ge=0)
        """Added to the standard deviation; no effect if nothing is divided by it."""
        kl_coef: float = Field(0.0, ge=0)
        """Weight of the KL to the reference in the loss; above 0 it needs the reference policy."""
        kl_estimator: LossKlEstimator = "k3"
        """`k3`, the paper's: on policy its gradient is that of KL(reference || policy). `k2`: that of
        KL(policy || reference). No effect if kl_coef is 0."""
        kl_correction: bool = False
        """Multiply the KL by the importance ratio, policy / policy that sampled (DeepSeek-V3.2): its expected gradient
        is then that of KL(policy || reference) with both estimators and in every pass, but for the bound of
        `training.importance_clip` where rollouts run ahead. Off, as in the paper; no effect if kl_coef is 0."""
        ratio: ImportanceLevel = "token"
        """`sequence`: one ratio per trajectory, the geometric mean of its tokens' (GSPO), and importance weights
        likewise; `turn`: one per turn (2511.20718). No effect with `objective: dppo`."""
        objective: Literal["clip", "cispo", "dppo"] = "clip"
        """`cispo`: log-probs with a bounded weight instead of a clipped ratio. The preset `cispo` has no lower bound
        and an upper one of 5, as ScaleRL (2510.13786) found; the paper names none. `dppo`: log-probs weighed by the
        ratio to the policy that sampled, at most 20; a token whose probability has moved from that policy's by more
        than `clip_high` up (A > 0) or `clip_low` down (A < 0) is dropped, .2 in the paper's code."""

    @classmethod
    def idle_options(cls, config: Any) -> dict[str, str]:
        """Options without effect."""
        idle = super().idle_options(config)
        if config.baseline == "leave_one_out":
            never = "the leave-one-out baseline is never divided by the standard deviation"
            idle |= dict.fromkeys(("normalise_std", "normalise_mean"), never)
        elif config.normalise_mean:
            idle["normalise_std"] = "normalise_mean divides by the mean"
        if "normalise_std" in idle or not config.normalise_std:
            idle["eps"] = "nothing is divided by the standard deviation"
        if config.kl_coef == 0:
            idle |= {"kl_estimator": "kl_coef is 0", "kl_correction": "kl_coef is 0"}
        if config.objective == "cispo":
            idle["dual_clip"] = "cispo has no clipped ratio to bound"
        if config.objective == "dppo":
            idle |= dict.fromkeys(("dual_clip", "ratio"), "objective dppo bounds how far each probability moves")
        return idle

    def roles(self) -> frozenset[Role]:
        """The policy, and the reference if there is a KL."""
        return frozenset({"policy", "reference"} if self.config.kl_coef > 0 else {"policy"})

    def trees(self) -> int:
        return int(self.config.trees)

    def importance_level(self) -> ImportanceLevel | None:
        """That of `ratio`; none with `objective: dppo`, which compares with the policy that sampled."""
        level: ImportanceLevel = self.config.ratio
        return None if self.config.objective == "dppo" else level

    def advantages(self, batch: Batch) -> Advantages:
        """The trajectory's advantage at each of its credited tokens."""
        mask = batch.action_mask if self.config.loss_mask else batch.response_mask
        total = self._in_groups(batch)
        if self.config.trees:
            total = total + self._in_groups(replace(batch, group=tree_groups(batch)))
        return Advantages(spread_over(total, mask))

    def _in_groups(self, batch: Batch) -> Tensor:
        if self.config.decouple_rewards:
            return decoupled_advantage(batch, self._per_trajectory)
        return self._per_trajectory(batch.returns, batch.group)

    def _per_trajectory(self, returns: Tensor, group: Tensor) -> Tensor:
        if self.config.baseline == "leave_one_out":
            return leave_one_out_advantage(returns, group)
        if self.config.normalise_mean:
            return mean_scaled_advantage(returns, group)
        if self.config.normalise_std:
            return group_normalised_advantage(returns, group, self.config.eps)
        return group_mean_advantage(returns, group)

    def loss(self, tokens: LossTokens) -> LossTerms:
        """The surrogate of the objective, and the KL."""
        config, logprobs, old, advantages = self.config, tokens.logprobs, tokens.old_logprobs, tokens.advantages
        ratio = tokens.log_ratio_per(config.ratio, log_ratio(logprobs, old))
        if config.objective == "dppo":
            surrogate = dppo_surrogate(logprobs, old, advantages, config.clip_low, config.clip_high)
        elif config.objective == "cispo":
            surrogate = cispo_surrogate(logprobs, ratio, advantages, config.clip_low, config.clip_high)
        else:
            surrogate = clipped_surrogate(ratio, advantages, config.clip_low, config.clip_high, config.dual_clip)
        terms = policy_terms(tokens, surrogate)
        return add_kl(terms, tokens, config.kl_coef, config.kl_estimator, config.kl_correction)
