"""Writer: writes files of trajectories in processes of their own, on the controller's machine, one file at a time.

To write an episode takes longer than all else that the controller does with it, and it would have to unpack it. One
process writes a file; where it has several row groups, others make them for it.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

from agent_r1_core.contracts.token_numbers import TokenNumbers
from agent_r1_core.errors import RunError
from agent_r1_core.runs.trajectory_file import row_groups, table_of, write_tables, write_trajectories
from agent_r1_core.trajectory import Trajectory
from agent_r1_ray.remote import answer, on_this_machine
from agent_r1_ray.stored import parcel, received

if TYPE_CHECKING:
    import pyarrow as pa

_HANGS = 900.0
"""Seconds after which that process counts as hung."""
_MAKERS = min(8, (os.cpu_count() or 1) // 2)
"""Processes that make row groups."""


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
        sent = parcel(list(trajectories))  # as they are now, in whatever form
        self._writing = asyncio.create_task(_write(file, step, numbers or TokenNumbers(), sent))

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


async def _write(file: Path, step: int | None, numbers: TokenNumbers, sent: Sequence[Any]) -> None:
    try:
        written = answer(
            _elsewhere.options(scheduling_strategy=on_this_machine()).remote(file, step, numbers, _MAKERS, *sent)
        )
        await asyncio.wait_for(written, _HANGS)
    except RunError:
        raise
    except Exception:  # that process was lost, hangs, or lacks a plugin whose values are in the episodes
        trajectories = received(*[await answer(one) for one in sent])
        await asyncio.to_thread(write_trajectories, file, step, trajectories, numbers)


@ray.remote(num_cpus=0, max_retries=0)
def _elsewhere(file: Path, step: int | None, numbers: TokenNumbers, makers: int, *sent: Any) -> None:
    groups = deque(row_groups(received(*sent)))
    write_tables(file, _tables(step, groups, numbers, makers if len(groups) > 1 else 0))


def _tables(
    step: int | None, groups: deque[list[Trajectory]], numbers: TokenNumbers, makers: int
) -> Iterator[pa.Table]:
    """The row groups in order; they are unpacked in turn, or by the makers."""
    made: deque[Any] = deque()
    make = _table.options(scheduling_strategy=on_this_machine()).remote if makers > 1 else table_of
    while groups or made:
        while groups and len(made) < max(1, makers):
            group = groups.popleft()
            made.append(make(step, group, numbers.only([one.id for one in group])))
        first = made.popleft()
        yield ray.get(first) if makers > 1 else first


_table = ray.remote(num_cpus=0, max_retries=0)(table_of)
