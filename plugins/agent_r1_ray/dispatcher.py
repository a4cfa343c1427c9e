"""Dispatcher: starts rollout workers, deals episodes to them, gives them weights, and replaces those that are lost.

It knows nothing of Ray, so the same code runs over simulated workers. The unfinished episodes of a lost worker are
played again by others; what it has reported stays. A replacement gets the newest weights before its first episode, and
rests while the others do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from agent_r1_core.errors import AgentR1Error, EngineError, LearnerLost
from agent_r1_core.tools.tool_counts import ToolCounts
from agent_r1_ray.dealer import Dealer
from agent_r1_ray.jobs import PATIENCE, SILENCE, NoRoom, RolloutWorker, WorkerLost
from agent_r1_ray.seats import Seat

REPORTS = 50
"""Reports in a second of all workers together, about; many workers tell of several episodes at once."""
STARTS = 3
"""Workers of a seat that may be lost in a row while they start."""


class Dispatcher(Dealer):
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
        super().__init__([Seat(number, make_worker(number)) for number in range(workers)], capacity, deterministic)
        self._make_worker = make_worker
        self._note = note
        self._resting = False
        self._past = ToolCounts()
        """Calls of workers that were lost."""
        self.losses = 0
        """Workers that were lost so far."""
        self.tools: dict[str, dict[str, Any]] = {}
        """The facts of the tools of every task set; known after `start`."""

    async def start(self) -> None:
        """Start all workers.

        Raises:
            AgentR1Error: a worker cannot start.
        """
        starting = [asyncio.ensure_future(self._start_first(seat)) for seat in self._seats]
        try:
            facts = await asyncio.gather(*starting)
        finally:
            for one in starting:
                one.cancel()
        self.tools = facts[0]

    async def load_weights(self, weights: Any, version: int) -> None:
        """Serve these weights in all workers, and in those that replace them."""
        self._weights, self._resting = (weights, version), False
        await asyncio.gather(*(self._load(seat, seat.worker) for seat in self._seats if seat.ready))

    async def rest(self) -> None:
        """Let the workers free memory until the next weights."""
        self._resting = True
        await asyncio.gather(*(self._rest(seat, seat.worker) for seat in self._seats if seat.ready))

    def counts(self) -> ToolCounts:
        """Calls of all workers so far, as far as they have been reported."""
        return sum((seat.counts for seat in self._seats), self._past)

    async def close(self) -> None:
        """Let go of all workers."""
        self._closing = True
        self._fail_all(EngineError("the rollout workers were closed"))
        for seat in self._seats:
            if seat.watch is not None:
                seat.watch.cancel()
        closing = [self._close(seat) for seat in self._seats]
        await asyncio.gather(*closing, return_exceptions=True)

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
        """Start the worker of a seat, watch it, and let it serve the newest weights, or rest.

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
            resting = not self._resting
            while seat.worker is worker and resting != self._resting:  # it may change meanwhile
                resting = self._resting
                await (self._rest(seat, worker) if resting else self._load(seat, worker))
        except BaseException:
            watch.cancel()
            raise
        if seat.worker is worker:
            seat.ready = not seat.lost.is_set()
            self._offer(seat)
        return facts

    async def _load(self, seat: Seat, worker: RolloutWorker) -> None:
        """Give a worker the newest weights, if it has not got them, nor lost its seat meanwhile."""
        while self._weights is not None and seat.worker is worker and seat.version != self._weights[1]:
            weights, version = self._weights
            try:
                await seat.unless_lost(worker.load_weights(weights, version))
            except WorkerLost:
                return
            if seat.worker is worker:
                seat.version = version
        self._offer(seat)

    async def _rest(self, seat: Seat, worker: RolloutWorker) -> None:
        if seat.worker is worker:
            with suppress(WorkerLost):  # its watch replaces it
                await seat.unless_lost(worker.rest())

    async def _watch(self, seat: Seat, worker: RolloutWorker) -> None:
        """Take the reports of a worker until it is lost; then replace it."""
        gather = min(PATIENCE, len(self._seats) / REPORTS)
        try:
            while True:
                asked = worker.report(gather, self._queue.enough)
                report = await asyncio.wait_for(seat.unless_lost(asked), SILENCE)
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

    async def _replace(self, seat: Seat, reason: str) -> None:
        """Give the episodes of a lost worker to others, and its seat to a new worker."""
        seat.ready, seat.reason = False, reason
        seat.lost.set()
        self.losses += 1
        worker, work = seat.worker, seat.vacate()
        worker.kill()
        self._past, seat.counts = self._past + seat.counts, ToolCounts()
        self._note(
            f"{worker.name} on {worker.place} is lost ({reason}); {sum(len(one.waiting) for one in work)} episodes are "
            "played again, and a new worker takes its place"
        )
        self._requeue(work, reason)
        self._pump()
        for attempt in range(STARTS):
            if self._closing:
                return
            newcomer, begun = self._make_worker(seat.number), time.perf_counter()
            seat.renew(newcomer)
            try:
                await self._start(seat)
            except LearnerLost as error:  # its weights cannot be had any more: it waits for those of the next learner
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

    async def _close(self, seat: Seat) -> None:
        try:
            await asyncio.wait_for(seat.worker.close(), SILENCE)
        finally:
            seat.worker.kill()
