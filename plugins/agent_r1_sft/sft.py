"""Supervised fine-tuning: the negative log-likelihood of what demonstrations do (learning/likelihood.py).

No reward has a part in it: every episode counts alike, with advantage 1. Demonstrations are played in the run's own
environment; what cannot be played fails, and is left out.
"""

from __future__ import annotations

from typing import Any

from agent_r1_core import ObservationSource
from agent_r1_core.contracts.algorithm import AlgorithmConfig
from agent_r1_core.learning.likelihood import MaximumLikelihood


class SFT(MaximumLikelihood):
    """Learning from demonstrations."""

    class Config(AlgorithmConfig):
        """Options of supervised fine-tuning."""

        observations: ObservationSource = "tools"
        """What the policy reads between the actions: `tools`, what the run's own tools answer to the demonstrated calls
        now; `file`, what the demonstration says that they answered, and none is called."""

    @classmethod
    def idle_options(cls, config: Any) -> dict[str, str]:
        return super().idle_options(config) | {"filter": "a demonstration has no others to be compared with"}

    def demonstrations(self) -> ObservationSource | None:
        observations: ObservationSource = self.config.observations
        return observations
