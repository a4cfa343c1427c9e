"""The weight of the entropy bonus: constant, or moved towards a target (Skywork-OR1, arXiv 2505.22312).

With a target e*, the weight rises by `entropy_step` after an update whose entropy e is at most e*, and else falls by
as much, within 0 and 1; it acts where e <= e* alone. e is that of the update before, as in TRL: Skywork takes one more
pass for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from agent_r1_core.contracts.algorithm import AlgorithmConfig


class EntropyBonus:
    """The weight that moves, and the entropy that it was last moved by: a part of a learner's state."""

    def __init__(self, config: AlgorithmConfig) -> None:
        self._target, self._step = config.entropy_target, config.entropy_step
        self._state = torch.tensor([config.entropy_coef, 0.0], dtype=torch.float64)

    @property
    def weight(self) -> float:
        """Of the bonus in the next update."""
        weight, entropy = self._state.tolist()
        return 0.0 if self._target is not None and entropy > self._target else float(weight)

    def move(self, entropy: float | None) -> None:
        """After an update with this mean entropy of its action tokens, nats; None: the policy learnt nothing."""
        if self._target is None or entropy is None:
            return
        step = self._step if entropy <= self._target else -self._step
        self._state[0] = (self._state[0] + step).clamp(0.0, 1.0)
        self._state[1] = entropy

    def state_dict(self) -> dict[str, Tensor]:
        """Nothing where there is no target."""
        return {} if self._target is None else {"state": self._state}

    def room(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Tensors into which a state with these names can be read."""
        return {name: torch.empty_like(self._state) for name in names}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self._state = state.get("state", self._state)
