"""Dispatcher: hands episodes to rollout workers, collects them, and replaces workers that are lost.

It knows nothing of Ray, so the same code runs over simulated workers. An episode's seed belongs to its plan, so that it
does not matter who plays it. The unfinished episodes of a lost worker are played again by others; what it has reported
stays. A replacement gets the newest weights before its first episode.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from agent_r1_core.distributed.jobs import Job, NoRoom, Report, RolloutWorker, WorkerLost
from agent_r1_core.distributed.queue import JobQueue
from agent_r1_core.distributed.seats import Call, OnFinished, Seat, Work
from agent_r1_core.errors import AgentR1Error, EngineError, LearnerLost
from agent_r1_core.rollout.plan import EpisodePlan
from agent_r1_core.rollout.result import CallCounts
from agent_r1_core.trajectory import EndStatus, Trajectory

SILENCE = 30.0
"""Seconds without a report, which a living worker sends every few, until it counts as hung."""
LOSSES = 5
"""Workers that may be lost under an episode before it counts as failed: it may be what kills them."""
STARTS = 3
"""Workers of a seat that may be lost in a row while they start."""


class Dispatcher:
    """Plays episodes on several workers.

    Args:
        make_worker: makes the worker of a seat, also its replacements; it starts later.
        workers: number of seats.
        capacity: episodes in flight in a worker.
        deterministic: deal the episodes of a call by their order alone, all at once (LAW 11).
        note: receives sentences for the user.
    """

    def __init__(
        self,
        make_worker: Callable[[int], RolloutWorker],
        workers: int,
        capacity: int,
        deterministic: bool = False,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._make_worker = make_worker
        self._seats = [Seat(number, make_worker(number)) for number in range(workers)]
        self._queue = JobQueue(self._seats, capacity, deterministic)
        self._note = note
        self._ids = itertools.count()
        self._submitting: set[asyncio.Task[None]] = set()
        self._weights: tuple[Any, int] | None = None
        self._past = CallCounts()
        """Calls of workers that were lost."""
        self._lost: Counter[str] = Counter()
        """By the episode's key: workers that were lost under it."""
        self._error: BaseException | None = None
        """Why no worker can be replaced any more."""
        self._closing = False
        self.losses = 0
        """Workers that were lost so far."""
        self.tools: dict[str, dict[str, Any]] = {}
        """The facts of the tools of every task set; known after `start`."""

    async def start(self) -> None:
        """Start all workers.

        Raises:
            AgentR1Error: a worker cannot start.
        """
        facts = await asyncio.gather(*(self._start_first(seat) for seat in self._seats))
        self.tools = facts[0]

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
        if version not in (None, served):
            raise EngineError(
                f"a rollout asks for weights of version {version}, but the workers serve {served}; load them first"
            )
        if not plans:
            return
        call = Call(on_finished, len(plans), asyncio.get_running_loop().create_future())
        for part in self._queue.parts(plans):
            self._queue.add(Work.of(Job(next(self._ids), split, greedy, served, part), call))
        self._pump()
        if self._error is not None:
            self._fail_all(self._error)
        try:
            await call.done
        except BaseException:
            await self._abandon(call)
            raise

    async def load_weights(self, weights: Any, version: int) -> None:
        """Serve these weights in all workers, and in those that replace them."""
        self._weights = weights, version
        await asyncio.gather(*(self._load(seat) for seat in self._seats if seat.ready))

    async def rest(self) -> None:
        """Let the workers free memory until the next weights."""
        await self._each(lambda worker: worker.rest())

    def counts(self) -> CallCounts:
        """Calls of all workers so far, as far as they have been reported."""
        total = self._past
        for seat in self._seats:
            total = total + seat.counts
        return total

    async def close(self) -> None:
        """End all workers."""
        self._closing = True
        self._fail_all(EngineError("the rollout workers were closed"))
        for seat in self._seats:
            if seat.watch is not None:
                seat.watch.cancel()
        closing = [self._close(seat) for seat in self._seats]
        await asyncio.gather(*closing, return_exceptions=True)

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

    async def _start_first(self, seat: Seat) -> dict[str, dict[str, Any]]:
        """Start the first worker of a seat, or the next one if it is lost meanwhile.

        Raises:
            EngineError: one after the other was lost, or has no room.
        """
        for left in reversed(range(STARTS)):
            try:
                return await self._start(seat)
            except WorkerLost as error:
                seat.worker.kill()
                reason = f"{seat.worker.name} ended while it started: {error}"
                if not left or isinstance(error, NoRoom):
                    break
                self._note(f"{reason}; a new worker takes its place")
                seat.renew(self._make_worker(seat.number))
        raise EngineError(reason)

    async def _start(self, seat: Seat) -> dict[str, dict[str, Any]]:
        """Start the worker of a seat, with the newest weights, and watch it.

        Raises:
            WorkerLost: it was lost before it had started.
        """
        worker = seat.worker
        try:
            facts = await worker.start()
        except AgentR1Error as error:
            raise type(error)(f"{worker.name} on {worker.place}: {error}") from None
        seat.watch = watch = asyncio.ensure_future(self._watch(seat, worker))
        try:
            await self._load(seat)
        except BaseException:
            watch.cancel()
            raise
        if seat.worker is worker:
            seat.ready = not seat.lost.is_set()
            self._offer(seat)
        return facts

    async def _load(self, seat: Seat) -> None:
        """Give a worker the newest weights, if it has not got them."""
        worker = seat.worker
        while self._weights is not None and seat.version != self._weights[1]:
            weights, version = self._weights
            try:
                await seat.unless_lost(worker.load_weights(weights, version))
            except WorkerLost:
                return
            if seat.worker is not worker:  # lost in the same moment, and replaced
                return
            seat.version = version
        self._offer(seat)

    async def _each(self, act: Callable[[RolloutWorker], Awaitable[None]]) -> None:
        async def one(seat: Seat) -> None:
            with suppress(WorkerLost):  # its watch replaces it
                await seat.unless_lost(act(seat.worker))

        await asyncio.gather(*(one(seat) for seat in self._seats if seat.ready))

    async def _watch(self, seat: Seat, worker: RolloutWorker) -> None:
        """Take the reports of a worker until it is lost; then replace it."""
        try:
            while True:
                report = await asyncio.wait_for(seat.unless_lost(worker.report()), SILENCE)
                self._take(seat, report)
        except WorkerLost as error:
            reason = str(error)
        except TimeoutError:
            reason = f"it has not answered for {SILENCE:g} seconds"
        except asyncio.CancelledError:
            raise
        except Exception as error:
            reason = f"its report failed with {type(error).__name__}: {error}"
        if seat.worker is worker:
            await self._replace(seat, reason)

    def _take(self, seat: Seat, report: Report) -> None:
        seat.counts = report.counts
        for number, index, trajectory in report.finished:
            ended = seat.end(number, index)
            if ended is not None:
                work, plan = ended
                self._lost.pop(plan.key, None)
                work.call.finish(plan, trajectory)
        for number, error in report.broken:
            self._break(seat, number, error)
        self._offer(seat)

    def _break(self, seat: Seat, number: int, error: Exception) -> None:
        work = seat.drop(number)
        if work is not None:
            work.call.fail(error)

    async def _replace(self, seat: Seat, reason: str) -> None:
        """Give the episodes of a lost worker to others, and its seat to a new worker."""
        seat.ready, seat.reason = False, reason
        seat.lost.set()
        self.losses += 1
        worker, work = seat.worker, seat.vacate()
        worker.kill()
        self._past, seat.counts = self._past + seat.counts, CallCounts()
        self._note(
            f"{worker.name} on {worker.place} is lost ({reason}); {sum(len(one.waiting) for one in work)} episodes are "
            "played again, and a new worker takes its place"
        )
        self._requeue(work, reason)
        self._pump()
        for attempt in range(STARTS):
            newcomer, begun = self._make_worker(seat.number), time.perf_counter()
            seat.renew(newcomer)
            try:
                await self._start(seat)
            except asyncio.CancelledError:
                newcomer.kill()
                raise
            except LearnerLost as error:  # its weights cannot be had any more: the run goes on from its checkpoint
                newcomer.kill()
                self._error = error
                self._fail_all(error)
            except Exception as error:
                newcomer.kill()
                last = str(error) or type(error).__name__
                if attempt + 1 < STARTS and not isinstance(error, AgentR1Error | NoRoom):
                    continue
                self._give_up(seat, last)
            else:
                if seat.ready and not self._closing:
                    self._note(f"{newcomer.name} works again, after {time.perf_counter() - begun:.1f} s")
            return

    def _give_up(self, seat: Seat, reason: str) -> None:
        """Go on without a worker, as long as there are others."""
        others = [one for one in self._seats if one is not seat and (one.ready or not one.lost.is_set())]
        seat.lost.set()
        if others:
            self._note(f"{seat.worker.name} cannot be replaced ({reason}); {len(others)} workers go on")
            return
        self._error = EngineError(
            f"the last rollout worker is lost and cannot be replaced: {reason}; mend that and resume the run"
        )
        self._fail_all(self._error)

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
                job = Job(next(self._ids), work.job.split, work.job.greedy, work.job.version, again)
                self._queue.add(Work.of(job, work.call), first=True)

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

    async def _close(self, seat: Seat) -> None:
        try:
            await asyncio.wait_for(seat.worker.close(), SILENCE)
        finally:
            seat.worker.kill()


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
