"""What a checkpoint needs of a learner, kept as it was at one moment, so that it is written while training goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agent_r1_core.learning.state_folder import write_state

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from agent_r1_core.learning.learner import Learner


class CapturedState:
    """The policy's weights and the learner's state.

    A copy lies in the memory of the CPU: 12 bytes for each parameter of the policy (its weight and two moments) and as
    many for each of the critic; with LoRA the merged weights, and 12 bytes for each parameter of the adapters. Of
    several ranks each copies its own shards; only the first one needs the policy's weights.

    Args:
        copy: False: look at the learner itself, which must not learn until all is written.
    """

    def __init__(self, learner: Learner, copy: bool = True) -> None:
        self._policy = learner.policy
        weights = learner.policy.snapshot("cpu") if copy else learner.policy.weights()
        self._weights = weights if learner.ranks.rank == 0 else None
        state = learner.state.tensors()
        self._state = {name: tensor.to("cpu", copy=True) for name, tensor in state.items()} if copy else state

    def write(self, folder: Path, group: ProcessGroup | None = None) -> None:
        """Write `trainer/`, each rank its shards, and `policy/`, a plain Hugging Face folder, the first rank alone.

        Args:
            group: see `write_state`.

        Raises:
            OSError, RuntimeError, SafetensorError: writing fails.
        """
        write_state(self._state, folder / "trainer", group)
        if self._weights is not None:
            self._policy.save(folder / "policy", weights=self._weights)
