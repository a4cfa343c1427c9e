"""JobQueue: the jobs that wait for a worker, and who of the workers gets the next one."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence

from agent_r1_core.rollout.plan import EpisodePlan
from agent_r1_ray.jobs import Job
from agent_r1_ray.seats import Call, Seat, Work


class JobQueue:
    """First come, first served, by the worker with the fewest episodes.

    Args:
        capacity: episodes in flight in a worker.
        deterministic: a worker gets a job when it has none, whatever the capacity (LAW 11).
    """

    def __init__(self, seats: Sequence[Seat], capacity: int, deterministic: bool) -> None:
        self._seats = seats
        self._capacity = capacity
        self._deterministic = deterministic
        self._waiting: deque[Work] = deque()
        self._offers: list[tuple[int, int]] = []
        """A heap of seats that may take work, each with the load that it had; some are out of date. Nobody keeps it
        while no work waits."""

    @property
    def works(self) -> Iterable[Work]:
        """What waits."""
        return self._waiting

    @property
    def enough(self) -> int:
        """Finished episodes of which a worker should tell at once: few, while others wait for the room that they
        leave."""
        return max(1, self._capacity // 16) if self._waiting else self._capacity

    def parts(self, plans: Sequence[EpisodePlan]) -> list[list[EpisodePlan]]:
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

    def add(self, work: Work, first: bool = False) -> None:
        """Let a job wait; with `first`, before all others."""
        if not self._waiting:
            self._offers = [(seat.load, seat.number) for seat in self._seats]
            heapq.heapify(self._offers)
        if first:
            self._waiting.appendleft(work)
            for seat in self._seats:  # it may be smaller than what no worker had room for
                self.offer(seat)
        else:
            self._waiting.append(work)

    def offer(self, seat: Seat) -> None:
        """Note that a seat may take work: its load, its weights or its worker have changed."""
        if self._waiting:
            heapq.heappush(self._offers, (seat.load, seat.number))

    def hand_out(self) -> dict[int, list[Job]]:
        """Give waiting jobs to seats; returns them by the seat's number."""
        handed: dict[int, list[Job]] = {}
        while self._waiting and self._offers:
            load, number = self._offers[0]
            seat, work = self._seats[number], self._waiting[0]
            if load != seat.load or not self._takes(seat, work):
                heapq.heappop(self._offers)
                continue
            self._waiting.popleft()
            seat.take(work)
            heapq.heapreplace(self._offers, (seat.load, number))
            handed.setdefault(number, []).append(work.job)
        return handed

    def forget(self, call: Call) -> None:
        """Let nothing of a call wait any more."""
        self._waiting = deque(work for work in self._waiting if work.call is not call)

    def _takes(self, seat: Seat, work: Work) -> bool:
        # A worker lets wait what it has no room for: a job that fits only in part would leave room unused.
        fits = not seat.load or (not self._deterministic and seat.load < self._capacity)
        version = work.job.version
        return seat.ready and fits and (version is None or (seat.version is not None and seat.version >= version))
