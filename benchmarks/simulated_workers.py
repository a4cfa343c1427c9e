"""Simulated rollout workers in virtual time, and what they play, for controller.py."""

from __future__ import annotations

import asyncio
import heapq
import pickle
import random
import selectors
import statistics
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import itemgetter
from typing import Any

from agent_r1_ray import relay, stored
from agent_r1_ray.jobs import PATIENCE, Job, Report

from agent_r1_core.testing import make_trajectory
from agent_r1_core.trajectory import CallRecord, Task, Trajectory

TRIP = 0.002
"""Seconds of a report's way."""
SECONDS = (
    0.794, 1.068, 1.237, 1.632, 1.739, 1.798, 1.848, 1.891, 1.987, 2.274, 2.358, 2.451, 2.562, 2.718, 3.008, 3.398,
    5.271, 5.334, 5.419, 5.487, 6.393,
)  # fmt: skip
"""Quantiles of an episode of the default recipe with a slow tool; here stretched to a mean of 6.9 s."""
OUTSIDE = "outside"
PARTS = ("plan, deal", "send jobs", "event loop", "unpickle", "groups, metrics", "to learner", "to writer")
WORDS = ["".join(random.Random(k).choices("abcdefghijklmnopqrstuvwxyz", k=2 + k % 6)) for k in range(4096)]
EACH, UPDATE = 128, 26.5
"""Episodes in flight in a worker; seconds of an update."""
TAIL = 5 / 42
"""The share of a step in which workers tell of their last episodes, which is urgent: the wait of one report."""


def episode(rng: random.Random, sample: int) -> Trajectory:
    """An episode of `3B`: random tokens and words, two to five turns."""

    def ids(mean: int) -> list[int]:
        return [rng.randrange(150_000) for _ in range(round(mean * rng.uniform(0.4, 1.6)))]

    spans = [(ids(450 if turn else 350), ids(130)) for turn in range(rng.choice((2, 3, 3, 3, 3, 4)))]
    logprobs = [array("f", [-rng.expovariate(2.0) for _ in action]).tolist() for _, action in spans]
    made = make_trajectory(
        spans, sample=sample, logprobs=logprobs,
        texts=[" ".join(rng.choices(WORDS, k=len(action) * 3 // 4 + 1)) for _, action in spans],
        reward=float(rng.random() < 0.5), rewards={"exact_match": 1.0, "format": 1.0}, answer="an answer",
        turn_rewards=[0.0] * len(spans),
    )  # fmt: skip
    for turn, (observation, action) in zip(made.turns, spans, strict=True):
        said = " ".join(rng.choices(WORDS, k=len(observation) * 3 // 4 + 1))
        turn.observation, turn.versions = [{"role": "tool", "content": said}], ((0, len(action)),)
        turn.calls = [CallRecord("wiki_search", {"query": said[:40]}, None, 0.3)]
    return made


class Meter:
    """Processor seconds of this thread by part; those of `OUTSIDE` are other processes'."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._part, self._since = "event loop", time.thread_time()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        before = self.switch(name)
        try:
            yield
        finally:
            self.switch(before)

    def switch(self, name: str) -> str:
        """Count for a part from now on; returns the one before."""
        now = time.thread_time()
        self.seconds[self._part] += now - self._since
        before, self._part, self._since = self._part, name, now
        return before

    def total(self) -> float:
        self.switch(self._part)
        return sum(self.seconds[part] for part in PARTS)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Jumps to its next timer; beside that, time is what the controller computes."""

    def __init__(self, meter: Meter) -> None:
        self.slept, self._meter = 0.0, meter
        loop = self

        class Jumping(selectors.DefaultSelector):
            def select(self, timeout: float | None = None) -> Any:
                assert timeout is not None, "every coroutine waits for another one"
                loop.slept += max(0.0, timeout)
                return super().select(0)

        super().__init__(Jumping())

    def time(self) -> float:
        return self.slept + self._meter.total()


class SimulatedWorker:
    """A rollout worker whose episodes take time and nothing else; it reports as a RolloutHost does."""

    place = "nowhere"

    def __init__(self, number: int, meter: Meter, kinds: Sequence[bytes], by: str, counts: Counter[str]) -> None:
        self.name = f"rollout worker {number}"
        self._meter, self._kinds, self._by, self._counts = meter, kinds, by, counts
        self._rng = random.Random(number)
        self._running: list[tuple[float, int, int, Task, int]] = []

    async def start(self) -> dict[str, dict[str, Any]]:
        return {"train": {}}

    async def submit(self, jobs: Sequence[Job]) -> None:
        with self._meter.part("send jobs"):
            sent = pickle.dumps(jobs, protocol=5)
        with self._meter.part(OUTSIDE):
            now, stretch = asyncio.get_running_loop().time(), 6.9 / statistics.fmean(SECONDS)
            for job in pickle.loads(sent):
                for plan in job.plans:
                    ends = now + stretch * self._rng.choice(SECONDS) * self._rng.uniform(0.95, 1.05)
                    heapq.heappush(self._running, (ends, job.id, plan.index, plan.task, job.call))

    async def report(self, gather: float, most: int) -> Report:
        loop = asyncio.get_running_loop()
        with self._meter.part(OUTSIDE):
            wait = self._told_at(loop.time(), gather, most) - loop.time()
        await asyncio.sleep(wait + TRIP)
        with self._meter.part(OUTSIDE):
            found, kept = self._report(loop.time() - TRIP), stored.Stored()
            if self._by == "reference":
                found = relay._told(found, kept)
            sent = pickle.dumps((found, kept.columns()), protocol=5)
        with self._meter.part("unpickle"):
            told, columns = pickle.loads(sent)
            if self._by == "reference":
                batch = stored.Batch(f"batch {self.name} {loop.time()}", columns)
                opened = [(job, index, stored.opened(one, batch)) for job, index, one in told.finished]
                told = replace(told, finished=opened)
        return told

    def _told_at(self, asked: float, gather: float, most: int) -> float:
        if not self._running or self._running[0][0] > asked + PATIENCE:
            return asked + PATIENCE
        first, ended = max(asked, self._running[0][0]), 0
        left = Counter(one[4] for one in self._running)
        for ends, *_, call in sorted(self._running, key=itemgetter(0)):
            if ends > first + gather:
                break
            left[call], ended = left[call] - 1, ended + 1
            if not left[call] or ended >= most:
                return max(asked, ends)
        return first + gather

    def _report(self, moment: float) -> Report:
        finished = []
        while self._running and self._running[0][0] <= moment:
            _, job, index, task, _ = heapq.heappop(self._running)
            one: Trajectory = pickle.loads(self._kinds[index % len(self._kinds)])
            vars(one)["task"] = task  # and it stays packed
            finished.append((job, index, one))
        self._counts["reports"] += bool(finished)
        return Report(finished)

    async def close(self) -> None:
        return

    def kill(self) -> None:
        return
