"""Maximum likelihood: the part that `sft` and `rft` share: whatever is in the batch becomes likelier.

The loss of an action token is -log pi(token | what stands before it); prompts and observations have none. It is
averaged over all action tokens of a step (`aggregation: token_mean`, by token) or over the means of its episodes
(`sequence_mean`, by conversation). Log-probs are those of the run's sampling temperature, as everywhere (LAW 2); at 1
the loss is the usual cross-entropy.
"""

from __future__ import annotations

from typing import ClassVar

from agent_r1_core.contracts.algorithm import Algorithm
from agent_r1_core.contracts.metric import Metric
from agent_r1_core.learning.batch import Advantages, Batch
from agent_r1_core.learning.loss import LossTerms, LossTokens


class MaximumLikelihood(Algorithm):
    """Imitates every episode of the batch alike, with advantage 1."""

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("nll", "mean negative log-prob of a loss token", unit="nats", better="lower"),
    )

    def compares_samples(self) -> bool:
        return False  # every episode has the same advantage

    def needs_spread(self) -> bool:
        return False

    def advantages(self, batch: Batch) -> Advantages:
        return Advantages((batch.action_mask if self.config.loss_mask else batch.response_mask).float())

    def loss(self, tokens: LossTokens) -> LossTerms:
        surprise = -tokens.logprobs
        loss = (tokens.advantages * surprise * tokens.weights).sum()
        return LossTerms(loss, metrics={"nll": tokens.sum_of(surprise)})
