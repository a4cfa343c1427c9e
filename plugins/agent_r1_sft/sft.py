"""Supervised fine-tuning: the negative log-likelihood of what demonstrations do.

The loss of an action token is -log pi(token | what stands before it); prompts and observations have none. It is
averaged over all action tokens of a step (`aggregation: token_mean`, by token) or over the means of its episodes
(`sequence_mean`, by conversation). Log-probs are those of the run's sampling temperature, as everywhere (LAW 2); at 1
the loss is the usual cross-entropy.

No reward has a part in it: every episode counts alike, with advantage 1. Demonstrations are played in the run's own
environment; what cannot be played fails, and is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_r1_core import ObservationSource
from agent_r1_core.contracts.algorithm import Algorithm, AlgorithmConfig
from agent_r1_core.contracts.metric import Metric
from agent_r1_core.learning.batch import Advantages
from agent_r1_core.learning.loss import LossTerms

if TYPE_CHECKING:
    from agent_r1_core.learning.batch import Batch
    from agent_r1_core.learning.loss import LossTokens


class SFT(Algorithm):
    """Learning from demonstrations."""

    metrics = (Metric("nll", "mean negative log-prob of a loss token", unit="nats", better="lower"),)

    class Config(AlgorithmConfig):
        """Options of supervised fine-tuning."""

        observations: ObservationSource = "tools"
        """What the policy reads between the actions: `tools`, what the run's own tools answer to the demonstrated calls
        now; `file`, what the demonstration says that they answered, and none is called."""

    @classmethod
    def idle_options(cls, config: Any) -> dict[str, str]:
        """Options without effect."""
        return super().idle_options(config) | {"filter": "a demonstration has no others to be compared with"}

    def demonstrations(self) -> ObservationSource | None:
        """Yes."""
        observations: ObservationSource = self.config.observations
        return observations

    def compares_samples(self) -> bool:
        """No."""
        return False

    def advantages(self, batch: Batch) -> Advantages:
        """1 at every loss token."""
        return Advantages((batch.action_mask if self.config.loss_mask else batch.response_mask).float())

    def loss(self, tokens: LossTokens) -> LossTerms:
        """The weighted sum of negative log-probs."""
        surprise = -tokens.logprobs
        loss = (tokens.advantages * surprise * tokens.weights).sum()
        return LossTerms(loss, metrics={"nll": tokens.sum_of(surprise)})
