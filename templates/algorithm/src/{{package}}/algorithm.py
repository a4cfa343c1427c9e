"""The algorithm `{{name}}`: REINFORCE (Williams, 1992) with the mean of the group as baseline.

A_i = R_i - mean_G at every action token of trajectory i, and the loss is -A log pi. There is no clipping, so make only
one pass over each rollout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_r1_core import Algorithm, AlgorithmConfig
from agent_r1_core.learning.batch import Advantages
from agent_r1_core.learning.credit import spread_over
from agent_r1_core.learning.groups import group_mean_advantage
from agent_r1_core.learning.loss import LossTerms

if TYPE_CHECKING:
    from agent_r1_core.learning.batch import Batch
    from agent_r1_core.learning.loss import LossTokens


class {{class}}(Algorithm):
    """REINFORCE with the group's mean as baseline."""

    class Config(AlgorithmConfig):
        """What a recipe may set, besides `loss_mask`, `aggregation`, `horizon` and `entropy_coef`."""

        scale: float = 1.0
        """Multiplies every advantage."""

    def advantages(self, batch: Batch) -> Advantages:
        """The trajectory's advantage at each of its action tokens; [trajectories, tokens]."""
        per_trajectory = self.config.scale * group_mean_advantage(batch.returns, batch.group)
        mask = batch.action_mask if self.config.loss_mask else batch.response_mask
        return Advantages(spread_over(per_trajectory, mask))

    def loss(self, tokens: LossTokens) -> LossTerms:
        """A sum of weight times token loss; the weights contain the normaliser, so that micro-batches add up."""
        token_loss = -tokens.advantages * tokens.logprobs
        return LossTerms(
            loss=(tokens.weights * token_loss).sum(),
            metrics={"surprisal": tokens.sum_of(-tokens.logprobs)},
        )
