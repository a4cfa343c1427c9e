"""Seats, works and calls: what the dispatcher keeps of its workers and of the episodes that they play."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import TypeVar

from agent_r1_core.rollout.plan import EpisodePlan, OnFinished
from agent_r1_core.tools.tool_counts import ToolCounts
from agent_r1_core.trajectory import Trajectory
from agent_r1_ray.jobs import Job, RolloutWorker, WorkerLost

T = TypeVar("T")


@dataclass
class Call:
    """One call of `Dispatcher.play`."""

    on_finished: OnFinished
    left: int
    """Episodes that have not ended."""
    done: asyncio.Future[None]

    def finish(self, plan: EpisodePlan, trajectory: Trajectory) -> None:
        """An episode has ended."""
        if self.done.done():
            return
        try:
            self.on_finished(plan, trajectory)
        except Exception as error:
            self.done.set_exception(error)
            return
        self.left -= 1
        if self.left == 0:
            self.done.set_result(None)

    def fail(self, error: BaseException) -> None:
        """Nothing more can come of it."""
        if not self.done.done():
            self.done.set_exception(error)


@dataclass
class Work:
    """A job in the queue or in a worker, and where its episodes go."""

    job: Job
    waiting: dict[int, EpisodePlan]
    """Its unfinished episodes by the index of their plan."""
    call: Call

    @classmethod
    def of(cls, job: Job, call: Call) -> Work:
        """A job none of whose episodes has ended."""
        return cls(job, {plan.index: plan for plan in job.plans}, call)


@dataclass(eq=False)
class Seat:
    """A place for a worker; whoever has it may be replaced."""

    number: int
    worker: RolloutWorker
    version: int | None = None
    """Of the weights that the worker serves."""
    ready: bool = False
    work: dict[int, Work] = field(default_factory=dict)
    """By the number of the job."""
    load: int = 0
    """Episodes in flight."""
    counts: ToolCounts = field(default_factory=ToolCounts)
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""
    """How the worker was lost, once it is."""
    watch: asyncio.Task[None] | None = None

    def take(self, work: Work) -> None:
        """The worker gets a job."""
        self.work[work.job.id] = work
        self.load += len(work.waiting)

    def drop(self, number: int) -> Work | None:
        """A job is no longer the worker's; gives it, if it was."""
        work = self.work.pop(number, None)
        if work is not None:
            self.load -= len(work.waiting)
        return work

    def end(self, number: int, index: int) -> tuple[Work, EpisodePlan] | None:
        """An episode has ended; gives its job and its plan, if it was the worker's."""
        work = self.work.get(number)
        plan = work.waiting.pop(index, None) if work is not None else None
        if work is None or plan is None:
            return None
        self.load -= 1
        if not work.waiting:
            del self.work[number]
        return work, plan

    def vacate(self) -> list[Work]:
        """The worker is gone; gives what it has not finished."""
        left = list(self.work.values())
        self.work, self.load = {}, 0
        return left

    async def unless_lost(self, action: Awaitable[T]) -> T:
        """Await an action of the worker, but not longer than the worker lives. If it says that the worker is lost, all
        that waits for the worker hears of it.

        Raises:
            WorkerLost: the worker was lost meanwhile.
        """
        event = self.lost
        task, lost = asyncio.ensure_future(action), asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait([task, lost], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise WorkerLost(self.reason)
            return task.result()
        except WorkerLost as error:
            if not event.is_set():
                self.reason = str(error)
                event.set()
            raise
        finally:
            for one in (task, lost):
                one.cancel()

    def renew(self, worker: RolloutWorker) -> None:
        """Another worker takes the place."""
        self.worker, self.version, self.lost, self.reason = worker, None, asyncio.Event(), ""
