"""RolloutHost: what runs inside a rollout worker: an engine, its tools, and the jobs that it plays."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from agent_r1_core.errors import AgentR1Error, describe_error
from agent_r1_core.tools.tool_counts import ToolCounts
from agent_r1_core.trajectory import EndStatus
from agent_r1_ray.jobs import PATIENCE, Job, Report
from agent_r1_ray.packed import packed

if TYPE_CHECKING:
    from agent_r1_core.assembly.local_roles import LocalRollouts
    from agent_r1_core.rollout.plan import EpisodePlan
    from agent_r1_core.trajectory import Trajectory


class RolloutHost:
    """Plays jobs with rollouts of this process and keeps what is finished until it is asked for."""

    def __init__(self, rollouts: LocalRollouts) -> None:
        self._rollouts = rollouts
        self._before = _calls(rollouts)
        """Of whoever had the engine and the tools before."""
        self._playing: dict[int, asyncio.Task[None]] = {}
        self._finished: list[tuple[int, int, Trajectory]] = []
        self._broken: list[tuple[int, Exception]] = []
        self._left: Counter[int] = Counter()
        """Unfinished episodes by the number of their call."""
        self._most: float = math.inf
        """Episodes with which a report does not wait for more."""
        self._news = asyncio.Event()
        self._urgent = asyncio.Event()
        """There is news that somebody waits for."""

    async def start(self) -> dict[str, dict[str, Any]]:
        """Open tools and engine; gives the facts of the tools of every task set."""
        await self._rollouts.start()
        return {name: self._rollouts.tools(name) for name in self._rollouts.stages}

    async def submit(self, jobs: Sequence[Job]) -> None:
        """Begin to play."""
        for job in jobs:
            self._left[job.call] += len(job.plans)
            self._playing[job.id] = asyncio.create_task(self._play(job))

    async def report(self, gather: float, most: int) -> Report:
        """What has happened since the last report; waits for it, at most `PATIENCE` seconds, and then for more, unless
        a call has no other episodes here: it may wait for these.

        Args:
            gather: seconds to wait for more.
            most: episodes that are enough.

        Raises:
            EngineError: the engine can serve nothing any more; this process is of no use.
        """
        self._most = most
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), PATIENCE)
            if len(self._finished) < most:
                await asyncio.wait_for(self._urgent.wait(), gather)
        error = self._rollouts.broken()
        if error is not None:
            raise error
        urgent = self._urgent.is_set() or len(self._finished) >= most
        self._news.clear()
        self._urgent.clear()
        finished, self._finished = self._finished, []
        broken, self._broken = self._broken, []
        return Report(finished, broken, _calls(self._rollouts) - self._before, urgent)

    async def cancel(self, jobs: Sequence[int]) -> None:
        """Stop jobs, by their numbers."""
        stopped = [self._playing[number] for number in jobs if number in self._playing]
        for task in stopped:
            task.cancel()
        await asyncio.gather(*stopped, return_exceptions=True)

    async def load_weights(self, weights: Any, version: int) -> None:
        """Serve these weights from the next token on."""
        await self._rollouts.load_weights(weights, version)

    async def rest(self) -> None:
        """Free memory until the next weights."""
        await self._rollouts.rest()

    async def hand_over(self) -> RolloutHost:
        """Stop all jobs and rest; gives a host of the same engine and tools that knows nothing of them."""
        await self.cancel(list(self._playing))
        await self.rest()
        return RolloutHost(self._rollouts)

    async def close(self) -> None:
        """Stop all jobs and release everything."""
        await self.cancel(list(self._playing))
        await self._rollouts.close()

    async def _play(self, job: Job) -> None:
        left = len(job.plans)

        def end(episodes: int) -> None:
            nonlocal left
            left -= episodes
            self._left[job.call] -= episodes
            if self._left[job.call] == 0:
                del self._left[job.call]
                self._urgent.set()

        def keep(plan: EpisodePlan, trajectory: Trajectory) -> None:
            end(1)
            self._news.set()
            # An engine that died fails every episode; they are played again elsewhere.
            if trajectory.status is EndStatus.FAILED and self._rollouts.broken() is not None:
                self._urgent.set()
                return
            self._finished.append((job.id, plan.index, packed(trajectory)))
            if len(self._finished) >= self._most:
                self._urgent.set()

        try:
            await self._rollouts.stages[job.split].collector.play(job.plans, keep, job.greedy)
        except Exception as error:
            # Only our own errors are sure to travel.
            sent = error if isinstance(error, AgentR1Error) else RuntimeError(describe_error(error))
            self._broken.append((job.id, sent))
            self._news.set()
            self._urgent.set()
        finally:
            self._playing.pop(job.id, None)
            if left:
                end(left)


def _calls(rollouts: LocalRollouts) -> ToolCounts:
    """All calls of its collectors so far."""
    return sum((stage.collector.counts() for stage in rollouts.stages.values()), ToolCounts())
