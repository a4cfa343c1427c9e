"""Writer: writes files of trajectories in a process of their own, on the controller's machine, one at a time.

To write an episode takes longer than all else that the controller does with it, and it would have to unpack it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from agent_r1_core.contracts.token_numbers import TokenNumbers
from agent_r1_core.errors import RunError
from agent_r1_core.runs.trajectory_file import write_trajectories
from agent_r1_core.trajectory import Trajectory
from agent_r1_ray.remote import answer

_HANGS = 900.0
"""Seconds after which that process counts as hung."""


class Writer:
    """The files of a run."""

    def __init__(self) -> None:
        self._writing: asyncio.Task[None] | None = None

    async def begin(
        self, file: Path, step: int | None, trajectories: Sequence[Trajectory], numbers: TokenNumbers | None
    ) -> None:
        """Begin a file, when the one before it is on disk.

        Raises:
            RunError: the one before it could not be written.
        """
        await self.wait()
        stored = ray.put(list(trajectories))  # as they are now, in whatever form
        self._writing = asyncio.create_task(_write(file, step, stored, numbers))

    async def wait(self) -> None:
        """Wait until all is on disk.

        Raises:
            RunError: it could not be written.
        """
        writing = self._writing
        if writing is not None:
            await asyncio.wait([writing])
            self._writing = None
            writing.result()


async def _write(file: Path, step: int | None, stored: Any, numbers: TokenNumbers | None) -> None:
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    try:
        written = answer(_elsewhere.options(scheduling_strategy=here).remote(file, step, stored, numbers))
        await asyncio.wait_for(written, _HANGS)
    except RunError:
        raise
    except Exception:  # that process was lost, hangs, or lacks a plugin whose values are in the episodes
        await asyncio.to_thread(write_trajectories, file, step, await answer(stored), numbers)


@ray.remote(num_cpus=0, max_retries=0)
def _elsewhere(file: Path, step: int | None, trajectories: list[Trajectory], numbers: TokenNumbers | None) -> None:
    trajectories.reverse()
    unpacked_in_turn = (trajectories.pop() for _ in range(len(trajectories)))
    write_trajectories(file, step, unpacked_in_turn, numbers)
