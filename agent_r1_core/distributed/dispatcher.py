"""Dispatcher: hands episodes to rollout workers, collects them, and replaces workers that are lost.

It knows nothing of Ray, so the same code runs over simulated workers. An episode's seed belongs to its plan, so that it
does not matter who plays it. The unfinished episodes of a lost worker are played again by others; what it has reported
stays. A replacement gets the newest weights before its first episode.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agent_r1_core.distributed.jobs import Job, NoRoom, Report, RolloutWorker, WorkerLost
from agent_r1_core.errors import AgentR1Error, EngineError, LearnerLost
from agent_r1_core.rollout.plan import EpisodePlan
from agent_r1_core.rollout.result import CallCounts
from agent_r1_core.trajectory import EndStatus, Trajectory

T = TypeVar("T")
OnFinished = Callable[[EpisodePlan, Trajectory], None]

SILENCE = 30.0
"""Seconds without a report, which a living worker sends every few, until it counts as hung."""
LOSSES = 5
"""Workers that may be lost under an episode before it counts as failed: it may be what kills them."""
STARTS = 3
"""Workers of a seat that may be lost in a row while they start."""


@dataclass
class _Work:
    """A job in the queue or in a worker, and where its episodes go."""

    job: Job
    waiting: dict[int, EpisodePlan]
    """Its unfinished episodes by the index of their plan."""
    call: _Call


@dataclass
class _Call:
    """One call of `play`."""

    on_finished: OnFinished
    left: int
    """Episodes that have not ended."""
    done: asyncio.Future[None]


@dataclass(eq=False)
class _Seat:
    """A place for a worker; whoever has it may be replaced."""

    number: int
    worker: RolloutWorker
    version: int | None = None
    """Of the weights that the worker serves."""
    ready: bool = False
    work: dict[int, _Work] = field(default_factory=dict)
    """By the number of the job."""
    load: int = 0
    """Episodes in flight."""
    counts: CallCounts = field(default_factory=CallCounts)
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    watch: asyncio.Task[None] | None = None


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
        self._seats = [_Seat(number, make_worker(number)) for number in range(workers)]
        self._capacity = capacity
        self._deterministic = deterministic
        self._note = note
        self._ids = itertools.count()
        self._queue: deque[_Work] = deque()
        self._offers: list[tuple[int, int]] = []
        """A heap of seats that may take work, each with the load that it had; some are out of date. Nobody keeps
        it while no work waits."""
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
        call = _Call(on_finished, len(plans), asyncio.get_running_loop().create_future())
        if not self._queue:
            self._offer_all()
        for part in self._parts(plans):
            job = Job(next(self._ids), split, greedy, served, part)
            self._queue.append(_Work(job, {plan.index: plan for plan in part}, call))
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

    def _parts(self, plans: Sequence[EpisodePlan]) -> list[list[EpisodePlan]]:
        """The episodes of each job: those of a task, which share their prompt; or, in deterministic mode, a worker's
        whole share, task after task."""
        by_task: dict[str, list[EpisodePlan]] = {}
        for plan in plans:
            by_task.setdefault(plan.task.id, []).append(plan)
        tasks = list(by_task.values())
        if not self._deterministic:
            size = self._capacity
            return [task[start : start + size] for task in tasks for start in range(0, len(task), size)]
        count = len(self._seats)
        shares = [tasks[len(tasks) * k // count : len(tasks) * (k + 1) // count] for k in range(count)]
        return [[plan for task in share for plan in task] for share in shares if share]

    def _offer(self, seat: _Seat) -> None:
        """Note that a seat may take work: its load, its weights or its worker have changed."""
        if self._queue:
            heapq.heappush(self._offers, (seat.load, seat.number))

    def _offer_all(self) -> None:
        """Note all seats, before work waits."""
        self._offers = [(seat.load, seat.number) for seat in self._seats]
        heapq.heapify(self._offers)

    def _pump(self) -> None:
        """Hand waiting jobs to the workers with the fewest episodes."""
        handed: dict[int, list[Job]] = {}
        while self._queue and self._offers:
            load, number = self._offers[0]
            seat, work = self._seats[number], self._queue[0]
            if load != seat.load or not self._takes(seat, work):
                heapq.heappop(self._offers)
                continue
            self._queue.popleft()
            seat.work[work.job.id] = work
            seat.load += len(work.waiting)
            heapq.heapreplace(self._offers, (seat.load, number))
            handed.setdefault(number, []).append(work.job)
        for number, jobs in handed.items():
            task = asyncio.ensure_future(self._submit(self._seats[number], jobs))
            self._submitting.add(task)
            task.add_done_callback(self._submitting.discard)

    def _takes(self, seat: _Seat, work: _Work) -> bool:
        fits = not seat.load or (not self._deterministic and seat.load + len(work.waiting) <= self._capacity)
        return seat.ready and fits and (work.job.version is None or (seat.version or 0) >= work.job.version)

    async def _submit(self, seat: _Seat, jobs: list[Job]) -> None:
        try:
            await self._unless_lost(seat, seat.worker.submit(jobs))
        except WorkerLost:
            pass  # its watch has the jobs played elsewhere
        except Exception as error:
            for job in jobs:
                self._break(seat, job.id, error)

    async def _start_first(self, seat: _Seat) -> dict[str, dict[str, Any]]:
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
                seat.worker = self._make_worker(seat.number)
        raise EngineError(reason)

    async def _start(self, seat: _Seat) -> dict[str, dict[str, Any]]:
        """Start the worker of a seat, with the newest weights, and watch it.

        Raises:
            WorkerLost: it was lost before it had started.
        """
        try:
            facts = await seat.worker.start()
        except AgentR1Error as error:
            raise type(error)(f"{seat.worker.name} on {seat.worker.place}: {error}") from None
        seat.watch = asyncio.ensure_future(self._watch(seat))
        await self._load(seat)
        seat.ready = not seat.lost.is_set()
        self._offer(seat)
        self._pump()
        return facts

    async def _load(self, seat: _Seat) -> None:
        """Give a worker the newest weights, if it has not got them."""
        while self._weights is not None and seat.version != self._weights[1]:
            weights, version = self._weights
            try:
                await self._unless_lost(seat, seat.worker.load_weights(weights, version))
            except WorkerLost:
                return
            seat.version = version
        self._offer(seat)
        self._pump()

    async def _each(self, act: Callable[[RolloutWorker], Awaitable[None]]) -> None:
        async def one(seat: _Seat) -> None:
            with suppress(WorkerLost):  # its watch replaces it
                await self._unless_lost(seat, act(seat.worker))

        await asyncio.gather(*(one(seat) for seat in self._seats if seat.ready))

    async def _unless_lost(self, seat: _Seat, action: Awaitable[T]) -> T:
        """Await an action of a worker, but not longer than the worker lives.

        Raises:
            WorkerLost: the worker was lost meanwhile.
        """
        task, lost = asyncio.ensure_future(action), asyncio.ensure_future(seat.lost.wait())
        try:
            await asyncio.wait([task, lost], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise WorkerLost(f"{seat.worker.name} is lost")
            return task.result()
        finally:
            for one in (task, lost):
                one.cancel()

    async def _watch(self, seat: _Seat) -> None:
        """Take the reports of a worker until it is lost; then replace it."""
        try:
            while True:
                report = await asyncio.wait_for(seat.worker.report(), SILENCE)
                self._take(seat, report)
        except WorkerLost as error:
            reason = str(error)
        except TimeoutError:
            reason = f"it has not answered for {SILENCE:g} seconds"
        except asyncio.CancelledError:
            raise
        except Exception as error:
            reason = f"its report failed with {type(error).__name__}: {error}"
        await self._replace(seat, reason)

    def _take(self, seat: _Seat, report: Report) -> None:
        seat.counts = report.counts
        for number, index, trajectory in report.finished:
            work = seat.work.get(number)
            plan = work.waiting.pop(index, None) if work is not None else None
            if work is not None and plan is not None:
                seat.load -= 1
                if not work.waiting:
                    del seat.work[number]
                self._finish(work, plan, trajectory)
        for number, error in report.broken:
            self._break(seat, number, error)
        self._offer(seat)
        self._pump()

    def _finish(self, work: _Work, plan: EpisodePlan, trajectory: Trajectory) -> None:
        call = work.call
        self._lost.pop(plan.key, None)
        if call.done.done():
            return
        try:
            call.on_finished(plan, trajectory)
        except Exception as error:
            call.done.set_exception(error)
            return
        call.left -= 1
        if call.left == 0:
            call.done.set_result(None)

    def _break(self, seat: _Seat, number: int, error: Exception) -> None:
        work = seat.work.pop(number, None)
        if work is not None:
            seat.load -= len(work.waiting)
            if not work.call.done.done():
                work.call.done.set_exception(error)

    async def _replace(self, seat: _Seat, reason: str) -> None:
        """Give the episodes of a lost worker to others, and its seat to a new worker."""
        seat.ready = False
        seat.lost.set()
        self.losses += 1
        worker, work = seat.worker, list(seat.work.values())
        worker.kill()
        self._past, seat.counts = self._past + seat.counts, CallCounts()
        seat.work, seat.load = {}, 0
        self._note(
            f"{worker.name} on {worker.place} is lost ({reason}); {sum(len(one.waiting) for one in work)} episodes are "
            "played again, and a new worker takes its place"
        )
        self._requeue(work, reason)
        self._pump()
        for attempt in range(STARTS):
            seat.worker = self._make_worker(seat.number)
            seat.version, seat.lost = None, asyncio.Event()
            begun = time.perf_counter()
            try:
                await self._start(seat)
            except asyncio.CancelledError:
                seat.worker.kill()
                raise
            except LearnerLost as error:  # its weights cannot be had any more: the run goes on from its checkpoint
                self._error = error
                self._fail_all(error)
            except Exception as error:
                seat.worker.kill()
                last = str(error) or type(error).__name__
                if attempt + 1 < STARTS and not isinstance(error, AgentR1Error | NoRoom):
                    continue
                self._give_up(seat, last)
            else:
                self._note(f"{seat.worker.name} works again, after {time.perf_counter() - begun:.1f} s")
            return

    def _give_up(self, seat: _Seat, reason: str) -> None:
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

    def _requeue(self, lost: list[_Work], reason: str) -> None:
        """Put unfinished episodes first in the queue; one that loses worker after worker has failed."""
        self._offer_all()
        for work in reversed(lost):
            again: list[EpisodePlan] = []
            for plan in work.waiting.values():
                self._lost[plan.key] += 1
                if self._lost[plan.key] < LOSSES:
                    again.append(plan)
                else:
                    self._finish(work, plan, _failed(plan, f"{LOSSES} rollout workers were lost under it: {reason}"))
            if again and not work.call.done.done():
                job = Job(next(self._ids), work.job.split, work.job.greedy, work.job.version, again)
                self._queue.appendleft(_Work(job, {plan.index: plan for plan in again}, work.call))

    async def _abandon(self, call: _Call) -> None:
        """Stop the episodes of a call that ended with an error."""
        self._queue = deque(work for work in self._queue if work.call is not call)
        stopping = []
        for seat in self._seats:
            stopped = [number for number, work in seat.work.items() if work.call is call]
            for number in stopped:
                seat.load -= len(seat.work.pop(number).waiting)
            if stopped and seat.ready and not self._closing:
                stopping.append(self._unless_lost(seat, seat.worker.cancel(stopped)))
            self._offer(seat)
        await asyncio.gather(*stopping, return_exceptions=True)

    def _fail_all(self, error: BaseException) -> None:
        works = [*self._queue, *(work for seat in self._seats for work in seat.work.values())]
        for work in works:
            if not work.call.done.done():
                work.call.done.set_exception(error)

    async def _close(self, seat: _Seat) -> None:
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
