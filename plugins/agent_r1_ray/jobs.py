"""What controller and rollout workers tell each other: jobs one way, reports the other."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from agent_r1_core.tools.tool_counts import ToolCounts

if TYPE_CHECKING:
    from agent_r1_core.rollout.plan import EpisodePlan
    from agent_r1_core.trajectory import Trajectory

PATIENCE = 5.0
"""Seconds until a worker reports though nothing has happened."""
BEAT = 5.0
"""Seconds between two questions whether an actor still lives."""
SILENCE = 30.0
"""Seconds without an answer, which a living worker gives every few, until it counts as hung."""


@dataclass(frozen=True)
class Job:
    """Episodes that a worker gets together."""

    id: int
    call: int
    """The call that it is a part of, which ends with the last of its episodes."""
    split: str
    greedy: bool
    version: int | None
    """Of the weights that begin them, which may be newer; None: any."""
    plans: Sequence[EpisodePlan]


@dataclass(frozen=True)
class Report:
    """What has happened in a worker since its last report."""

    finished: Sequence[tuple[int, int, Trajectory]] = ()
    """Number of the job, index of the plan, and the episode, failed ones included."""
    broken: Sequence[tuple[int, Exception]] = ()
    """Jobs that ended with an error against which no retry helps."""
    counts: ToolCounts = field(default_factory=ToolCounts)
    """All calls of the worker since the dispatcher has it."""
    urgent: bool = False
    """Whether somebody waits for it: it ends a call's part here, brings an error, or makes room for what is waiting."""


class WorkerLost(Exception):
    """A worker died, hangs, or is out of reach; the text says how."""


class NoRoom(WorkerLost):
    """It never began: the cluster has nothing free for it."""


class RolloutWorker(Protocol):
    """A rollout worker, as the controller sees it: an actor of Ray, or a simulated one.

    Every method raises WorkerLost if the worker is gone, and otherwise what the worker itself raised.
    """

    name: str
    """For people: `rollout worker 2`."""

    @property
    def place(self) -> str:
        """Where it runs, for people."""
        ...

    def start(self) -> Awaitable[dict[str, dict[str, Any]]]:
        """Open tools and engine; gives the facts of the tools of every task set."""
        ...

    def submit(self, jobs: Sequence[Job]) -> Awaitable[None]:
        """Begin to play."""
        ...

    def report(self, gather: float, most: int) -> Awaitable[Report]:
        """Wait until something has happened, at most some seconds, and then for more.

        Args:
            gather: seconds to wait for more; not if a call has no other episodes in this worker.
            most: episodes that are enough.
        """
        ...

    def load_weights(self, weights: Any, version: int) -> Awaitable[None]:
        """Serve these weights from the next token on."""
        ...

    def rest(self) -> Awaitable[None]:
        """Free memory until the next weights."""
        ...

    def cancel(self, jobs: Sequence[int]) -> Awaitable[None]:
        """Stop jobs, by their numbers."""
        ...

    def close(self) -> Awaitable[None]:
        """Play nothing more; whose the process is from then on is not the dispatcher's matter."""
        ...

    def kill(self) -> None:
        """End the process, whatever it does, unless `close` has given it away; never raises."""
        ...
