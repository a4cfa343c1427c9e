"""Dealer: hands the episodes of a call to the workers in the seats, and takes what they report.

An episode's seed belongs to its plan, so that it does not matter who plays it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agent_r1_core.assembly.roles import check_version
from agent_r1_core.rollout.plan import EpisodePlan
from agent_r1_core.trajectory import EndStatus, Trajectory
from agent_r1_ray.jobs import Job, Report, WorkerLost
from agent_r1_ray.packed import PackedTrajectory
from agent_r1_ray.queue import JobQueue
from agent_r1_ray.seats import Call, OnFinished, Seat, Work

LOSSES = 5
"""Workers that may be lost under an episode before it counts as failed: it may be what kills them."""


class Dealer:
    """Plays episodes on the workers of some seats; who looks after the workers is the dispatcher's business.

    Args:
        capacity: episodes in flight in a worker.
        deterministic: deal the episodes of a call by their order alone, all at once (LAW 11).
    """

    def __init__(self, seats: Sequence[Seat], capacity: int, deterministic: bool) -> None:
        self._seats = seats
        self._queue = JobQueue(seats, capacity, deterministic)
        self._ids = itertools.count()
        self._submitting: set[asyncio.Task[None]] = set()
        self._weights: tuple[Any, int] | None = None
        """The newest, with their version."""
        self._lost: Counter[str] = Counter()
        """By the episode's key: workers that were lost under it."""
        self._error: BaseException | None = None
        """Why no worker can be replaced any more."""
        self._closing = False

    async def play(
        self,
        plans: Sequence[EpisodePlan],
        on_finished: OnFinished,
        *,
        split: str = "train",
        greedy: bool = False,
        version: int | None = None,
    ) -> None:
        """Play episodes; `on_finished` gets each as it ends, failed ones included.

        Args:
            version: of the weights that must sample them; None: those that are served.

        Raises:
            EngineError: other weights than `version` are served, or lost workers cannot be replaced.
            LearnerLost: the weights are gone, so that a lost worker cannot be replaced.
            ConfigError, ModelError, PluginError: a problem that no retry can solve.
        """
        served = None if self._weights is None else self._weights[1]
        check_version(version, served, "the workers serve")
        if not plans:
            return
        call, number = Call(on_finished, len(plans), asyncio.get_running_loop().create_future()), next(self._ids)
        for part in self._queue.parts(plans):
            self._queue.add(Work.of(Job(next(self._ids), number, split, greedy, served, part), call))
        self._pump()
        if self._error is not None:
            self._fail_all(self._error)
        try:
            await call.done
        except BaseException:
            await self._abandon(call)
            raise

    def _offer(self, seat: Seat) -> None:
        """Let a seat take work: its load, its weights or its worker have changed."""
        self._queue.offer(seat)
        self._pump()

    def _pump(self) -> None:
        """Send the jobs that the queue hands out."""
        for number, jobs in self._queue.hand_out().items():
            task = asyncio.ensure_future(self._submit(self._seats[number], jobs))
            self._submitting.add(task)
            task.add_done_callback(self._submitting.discard)

    async def _submit(self, seat: Seat, jobs: list[Job]) -> None:
        try:
            await seat.unless_lost(seat.worker.submit(jobs))
        except WorkerLost:
            pass  # its watch has the jobs played elsewhere
        except Exception as error:
            for job in jobs:
                self._break(seat, job.id, error)

    def _take(self, seat: Seat, report: Report) -> None:
        seat.counts = report.counts
        for number, index, trajectory in report.finished:
            ended = seat.end(number, index)
            if ended is not None:
                work, plan = ended
                self._lost.pop(plan.key, None)
                if isinstance(trajectory, PackedTrajectory):
                    trajectory.belong(plan.task)
                work.call.finish(plan, trajectory)
        for number, error in report.broken:
            self._break(seat, number, error)
        self._offer(seat)

    def _break(self, seat: Seat, number: int, error: Exception) -> None:
        work = seat.drop(number)
        if work is not None:
            work.call.fail(error)

    def _requeue(self, lost: list[Work], reason: str) -> None:
        """Put unfinished episodes first in the queue; one that loses worker after worker has failed."""
        for work in reversed(lost):
            again: list[EpisodePlan] = []
            for plan in work.waiting.values():
                self._lost[plan.key] += 1
                if self._lost[plan.key] < LOSSES:
                    again.append(plan)
                else:
                    del self._lost[plan.key]
                    failed = _failed(plan, f"{LOSSES} rollout workers were lost under it: {reason}")
                    work.call.finish(plan, failed)
            if again and not work.call.done.done():
                self._queue.add(Work.of(replace(work.job, id=next(self._ids), plans=again), work.call), first=True)

    async def _abandon(self, call: Call) -> None:
        """Stop the episodes of a call that ended with an error."""
        self._queue.forget(call)
        stopping = []
        for seat in self._seats:
            stopped = [number for number, work in seat.work.items() if work.call is call]
            for number in stopped:
                seat.drop(number)
            if stopped and seat.ready and not self._closing:
                stopping.append(seat.unless_lost(seat.worker.cancel(stopped)))
            self._offer(seat)
        await asyncio.gather(*stopping, return_exceptions=True)

    def _fail_all(self, error: BaseException) -> None:
        for work in [*self._queue.works, *(work for seat in self._seats for work in seat.work.values())]:
            work.call.fail(error)


def _failed(plan: EpisodePlan, reason: str) -> Trajectory:
    """The record of an episode that no worker survived (LAW 5)."""
    return Trajectory(
        plan.task,
        plan.sample,
        seed=plan.seed,
        attempts=LOSSES,
        baseline=plan.baseline,
        status=EndStatus.FAILED,
        reason=reason,
    )
