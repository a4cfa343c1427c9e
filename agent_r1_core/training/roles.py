"""The two roles that the trainer knows: rollouts play tasks, the learner turns groups into better weights.

In one process they are plain objects (in_process.py). Neither blocks the trainer's event loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from agent_r1_core.learning.update import Update
    from agent_r1_core.rollout import OnEpisode, RolloutRequest, RolloutResult
    from agent_r1_core.trajectory import Group


class Rollouts(Protocol):
    """Plays tasks under the weights that it was given last."""

    async def collect(self, request: RolloutRequest, on_episode: OnEpisode | None = None) -> RolloutResult:
        """Play the request; `on_episode` hears of each episode as it ends.

        Raises:
            EngineError: the request names other weights than those that are served.
            ConfigError, ModelError, PluginError: what no retry can mend.
        """

    async def rest(self) -> None:
        """Nothing is asked for before the next `load_weights`: lend the learner what memory that frees."""

    async def load_weights(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Serve these weights from now on."""


class LearnerRole(Protocol):
    """Learns from groups."""

    def filter(self, groups: Sequence[Group]) -> list[Group]:
        """The groups that the algorithm wants to learn from."""

    def more_tasks(self, groups: Sequence[Group], tasks: int) -> int:
        """How many further tasks the algorithm asks for, given the groups that it kept of so many tasks."""

    async def update(self, groups: Sequence[Group], step: int) -> Update:
        """Learn from the groups of a step. When it is cancelled it stops between two micro-batches; its weights are
        then those of no step."""

    def snapshot(self) -> Mapping[str, Tensor]:
        """The policy's weights as they are now; later updates do not change them."""

    def save_policy(self, folder: Path) -> None:
        """Write the policy as a plain Hugging Face folder.

        Raises:
            OSError: the disk refuses.
        """

    def save_state(self, file: Path) -> None:
        """Write everything else that an exact resume needs.

        Raises:
            OSError: the disk refuses.
        """
