"""The two roles that the trainer uses: rollouts play tasks, the learner turns groups into better weights.

In one process they are plain objects (local_roles.py); on many machines a plugin, as `ray`, implements both. Neither
blocks the trainer's event loop, but for `save_policy`, when all is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agent_r1_core.errors import EngineError

if TYPE_CHECKING:
    from agent_r1_core.contracts.token_numbers import TokenNumbers
    from agent_r1_core.learning.forward import Family
    from agent_r1_core.learning.update import Update
    from agent_r1_core.rollout import OnEpisode, RolloutRequest, RolloutResult
    from agent_r1_core.runs.call_log import CallLog
    from agent_r1_core.trajectory import Group, Trajectory


Weights = Any
"""A policy's weights on their way from a learner to rollouts: tensors by their Hugging Face names, or what stands for
them where the two are in different processes. The trainer only passes them on."""


def check_version(asked: int | None, served: int | None, who: str) -> None:
    """Compare the version of the weights that a rollout asks for, None: any, with the one that is served.

    Args:
        who: the beginning of what is served, for the error: `the engine serves`.

    Raises:
        EngineError: they differ.
    """
    if asked not in (None, served):
        raise EngineError(f"a rollout asks for weights of version {asked}, but {who} {served}; load them first")


class Rollouts(Protocol):
    """Plays tasks with the latest weights that it was given."""

    async def start(self) -> None:
        """Open the tools and start the engine; `load_weights` comes next.

        Raises:
            AgentR1Error: a tool, the engine or a worker cannot start.
        """

    def tools(self, split: str) -> dict[str, dict[str, Any]]:
        """The facts about a task set's tools that a report states; known after `start`."""

    def log_calls(self, log: CallLog) -> None:
        """Record the tool calls that run in this process."""

    async def collect(self, request: RolloutRequest, on_episode: OnEpisode | None = None) -> RolloutResult:
        """Play the request; `on_episode` is called as each episode ends.

        Raises:
            EngineError: the request names another version of the weights than the one served.
            ConfigError, ModelError, PluginError: a retry would not help.
        """

    async def rest(self) -> None:
        """Free memory for the learner: no request comes before the next `load_weights`."""

    async def load_weights(self, weights: Weights, version: int) -> None:
        """Serve these weights from now on."""

    async def write(
        self, file: Path, step: int | None, trajectories: Sequence[Trajectory], numbers: TokenNumbers | None = None
    ) -> None:
        """Write episodes that were played here, as `write_trajectories` does. The file need not be on disk when this
        returns, but when `written` does.

        Raises:
            RunError: this file, or one before it, cannot be written.
        """

    async def written(self) -> None:
        """Wait until all files are on disk.

        Raises:
            RunError: one could not be written.
        """

    async def close(self) -> None:
        """Release everything, even after a start that failed half-way."""


class Captured(Protocol):
    """The learner's state at one moment."""

    def write(self, folder: Path) -> None:
        """Write `policy/`, in Hugging Face format, and `trainer/`; all of it is written when this returns. It blocks
        and is called once, in a thread of its own.

        Raises:
            OSError, RuntimeError, SafetensorError: writing fails (disk full, read-only).
        """


class LearnerRole(Protocol):
    """Learns from groups."""

    async def start(self) -> None:
        """Become ready to learn.

        Raises:
            AgentR1Error: a worker cannot start.
        """

    async def update(self, groups: Sequence[Group], step: int) -> Update:
        """Learn from the groups of a step. A cancelled update stops between two micro-batches and leaves weights that
        belong to no step."""

    async def score(self, families: Sequence[Family]) -> list[list[list[float]]]:
        """log p(action | prompt) under the policy as it is now, in nats, summed over the action's ids: for each family
        a row for each action, with a number for each prompt. It changes nothing."""

    async def snapshot(self) -> Weights:
        """The policy's weights as they are now, to be read before the next update, which may write into them."""

    def save_policy(self, folder: Path) -> None:
        """Write the policy's configuration and weights in Hugging Face format.

        Raises:
            OSError, RuntimeError, SafetensorError: writing fails (disk full, read-only).
        """

    async def capture(self, copy: bool = True) -> Captured:
        """Keep all that an exact resume needs, as it is now. Then learning may go on.

        Args:
            copy: False: keep no copy; there is no `update` until all is written.
        """

    async def close(self) -> None:
        """Release everything, even after a start that failed half-way."""
