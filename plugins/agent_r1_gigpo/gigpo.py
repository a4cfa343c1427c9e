"""GiGPO: compares trajectories of a group, and actions taken in the same state (Feng et al., arXiv 2505.10978).

At every action token of turn t of trajectory i, A = A_episode + omega A_step. A_episode = (R_i - mean_G) / (std_G +
eps), as in GRPO. A_step compares in the same way the turn's return to go, G_t = r_t + gamma_turn G_{t+1}, with
those of all turns of the group that began in the same state, its anchor group. An anchor group of one turn, or without
spread, tells nothing: A_step is 0 (LAW 7).

Environments name states (`Observation.state_key`). Turns without a name have A_step 0; if no turn has one, the
advantage is GRPO's, and the run says so. Losses are averaged over tokens, GRPO's over trajectories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from pydantic import Field

from agent_r1_core import Metric
from agent_r1_core.contracts.algorithm import Algorithm, AlgorithmConfig, Role
from agent_r1_core.learning.batch import Advantages
from agent_r1_core.learning.credit import spread_over
from agent_r1_core.learning.groups import anchor_groups, group_mean_advantage, group_normalised_advantage
from agent_r1_core.learning.kl import LossKlEstimator
from agent_r1_core.learning.loss import add_kl, policy_terms
from agent_r1_core.learning.surrogate import clipped_surrogate, log_ratio
from agent_r1_core.learning.turns import sum_per_turn, turn_borders, turn_returns_to_go

if TYPE_CHECKING:
    from torch import Tensor

    from agent_r1_core.learning.batch import Batch
    from agent_r1_core.learning.loss import LossTerms, LossTokens


class GiGPO(Algorithm):
    """Group-in-group policy optimisation."""

    metrics = (
        Metric(
            "anchored_turns",
            "turns that began in a state in which another turn of the group began, too; only these have an A_step",
            unit="share",
        ),
    )

    class Config(AlgorithmConfig):
        """Options of GiGPO."""

        omega: float = Field(1.0, ge=0)
        """Weight of A_step; 0: the advantage is GRPO's."""
        gamma_turn: float = Field(0.95, ge=0, le=1)
        """Discount per turn of the returns to go in A_step; no effect if omega is 0."""
        normalise_std: bool = True
        """Divide A_episode by the group's standard deviation, and A_step by the anchor group's."""
        eps: float = Field(1e-6, ge=0)
        """Added to the standard deviation; no effect if nothing is divided by it."""
        clip_low: float = Field(0.2, gt=0)
        """Lower bound of the ratio is 1 - clip_low; no effect if a rollout is learnt from in a single step."""
        clip_high: float = Field(0.2, gt=0)
        """Upper bound of the ratio is 1 + clip_high; no effect if a rollout is learnt from in a single step."""
        kl_coef: float = Field(0.0, ge=0)
        """Weight of the KL to the reference in the loss; above 0 it needs the reference policy."""
        kl_estimator: LossKlEstimator = "k3"
        """`k3`, the paper's: on policy its gradient is that of KL(reference || policy). `k2`: that of
        KL(policy || reference). No effect if kl_coef is 0."""

    @classmethod
    def idle_options(cls, config: Any) -> dict[str, str]:
        idle = super().idle_options(config)
        if config.omega == 0:
            idle["gamma_turn"] = "omega is 0"
        if not config.normalise_std:
            idle["eps"] = "nothing is divided by the standard deviation"
        if config.kl_coef == 0:
            idle["kl_estimator"] = "kl_coef is 0"
        return idle

    def roles(self) -> frozenset[Role]:
        return frozenset({"policy", "reference"} if self.config.kl_coef > 0 else {"policy"})

    def credits_turns(self) -> bool:
        """Yes, in A_step; A_episode takes the sum of a trajectory's rewards."""
        return bool(self.config.omega > 0)

    def advantages(self, batch: Batch) -> Advantages:
        """The trajectory's advantage at each of its credited tokens, and that of the turn at the turn's actions."""
        mask = batch.action_mask if self.config.loss_mask else batch.response_mask
        anchors = anchor_groups(batch)
        # In float64, so that the order of the rewards leaves no trace.
        returns = turn_returns_to_go(batch.rewards.double(), batch.turn, self.config.gamma_turn)
        named = anchors >= 0
        step = torch.zeros_like(batch.rewards)
        step[named] = self._compared(returns[named], anchors[named]).to(step.dtype)
        episode = spread_over(self._compared(batch.returns, batch.group), mask)
        of_turn = sum_per_turn(step, batch.turn, batch.action_mask)
        turns = int(turn_borders(batch.turn)[0].sum())
        shared = torch.bincount(anchors[named])
        anchored = int(shared[shared > 1].sum())
        warnings = () if bool(named.any()) else (_NO_STATES,)
        return Advantages(
            episode + self.config.omega * of_turn,
            metrics={"anchored_turns": anchored / max(1, turns)},
            warnings=warnings,
        )

    def _compared(self, returns: Tensor, group: Tensor) -> Tensor:
        if self.config.normalise_std:
            return group_normalised_advantage(returns, group, self.config.eps)
        return group_mean_advantage(returns, group)

    def loss(self, tokens: LossTokens) -> LossTerms:
        config = self.config
        ratio = log_ratio(tokens.logprobs, tokens.old_logprobs)
        surrogate = clipped_surrogate(ratio, tokens.advantages, config.clip_low, config.clip_high)
        return add_kl(policy_terms(tokens, surrogate), tokens, config.kl_coef, config.kl_estimator)


_NO_STATES = (
    "no turn has a state_key, so that gigpo compares no actions and is GRPO; use an environment that names its states "
    "(Observation.state_key), or algorithm=grpo"
)
