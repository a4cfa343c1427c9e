"""One rollout on its way through the learner, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from agent_r1_core.contracts.algorithm import AlgorithmConfig
from agent_r1_core.learning.aggregation import aggregation_weights
from agent_r1_core.learning.batch import Advantages, Batch
from agent_r1_core.learning.masking import masked_mean


@dataclass(frozen=True)
class Update:
    """What one `Learner.update` did."""

    metrics: dict[str, float]
    batch: Batch
    advantages: Tensor
    """[n, T], as in the batch."""

    @property
    def advantages_by_trajectory(self) -> dict[str, list[list[float]]]:
        """Advantages per segment and token, by the trajectory's id."""
        return self.batch.by_segment(self.advantages)


@dataclass
class Work:
    """A batch with its advantages, its masks, and the weights of the current mini-batch."""

    batch: Batch
    made: Advantages
    loss_mask: Tensor
    """bool [n, T], tokens of the policy's loss."""
    value_mask: Tensor | None
    """bool [n, T], tokens of the value loss; None without a critic."""
    weights: Tensor = field(init=False)
    value_weights: Tensor = field(init=False)
    gap_open: bool = True
    """Whether the gap to the engine is still to be measured: until the policy moves (LAW 2)."""

    def __post_init__(self) -> None:
        self.weights = torch.zeros(self.loss_mask.shape)
        self.value_weights = torch.zeros(self.loss_mask.shape)

    @property
    def scored(self) -> Tensor:
        """bool [n, T], tokens of either loss."""
        return self.loss_mask if self.value_mask is None else self.loss_mask | self.value_mask

    def weigh(self, rows: list[int], config: AlgorithmConfig) -> None:
        """Set the weights of a mini-batch: its normaliser is that of all its rows, skipped or not (LAW 6)."""
        self.weights[rows] = aggregation_weights(self.loss_mask[rows], config.aggregation, config.horizon)
        if self.value_mask is not None:
            self.value_weights[rows] = aggregation_weights(self.value_mask[rows], "token_mean")

    def with_advantage(self, rows: list[int]) -> list[int]:
        """The rows that have an advantage other than 0 at a loss token."""
        alive = ((self.made.advantages != 0) & self.loss_mask).any(1)
        return [row for row in rows if bool(alive[row])]

    def metrics(self) -> dict[str, float]:
        """What the batch and its advantages look like."""
        credited = self.made.advantages[self.loss_mask]
        return {
            "update/trajectories": float(self.batch.size),
            "update/action_tokens": float(self.batch.action_mask.sum()),
            "update/surprisal": -float(masked_mean(self.batch.sampler_logprobs, self.batch.action_mask)),
            "update/advantage_mean": float(credited.mean()),
            "update/advantage_std": float(credited.std(correction=0)),
            "update/advantage_max": float(credited.abs().max()),
        } | {f"update/{name}": value for name, value in self.made.metrics.items()}
