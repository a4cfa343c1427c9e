"""Simulated rollout workers: no model, no process; episodes that last as long as measured ones and weigh as much.

A worker keeps up to its capacity of episodes in flight. What it reports crosses a pickle boundary, as Ray's does: its
own pickling belongs to the simulation, unpickling to the controller.
"""

from __future__ import annotations

import asyncio
import heapq
import pickle
import random
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from virtual_time import SIMULATION, Meter

from agent_r1_core.distributed.jobs import PATIENCE, Job, Report
from agent_r1_core.distributed.packed import packed
from agent_r1_core.metrics.tally import tally
from agent_r1_core.rollout.result import CallCounts
from agent_r1_core.testing import make_trajectory
from agent_r1_core.tools.tool_counts import ToolCount, ToolCounts
from agent_r1_core.trajectory import CallRecord, Task, Trajectory

TRIP = 0.002
"""Seconds from an actor's answer to the controller, and of the next question to the actor."""
KINDS = 64
"""Different trajectories of a load; each is played by other tasks again and again."""
WORDS = tuple("".join(random.Random(k).choices("abcdefghijklmnopqrstuvwxyz", k=2 + k % 6)) for k in range(4096))
"""So many that packing makes texts of them hardly smaller than it would real ones."""


@dataclass(frozen=True)
class Load:
    """What the episodes of a run are like."""

    seconds: tuple[float, ...]
    """Quantiles of how long one takes, evenly spaced from the smallest to the largest."""
    turns: tuple[int, ...]
    """Of episodes, equally likely."""
    prompt: int
    """Tokens."""
    action: int
    """Tokens of a turn on the mean."""
    observation: int
    """Tokens of a turn's answer on the mean."""
    update: float
    """Seconds of the learner's part of a step, whatever the number of workers: learners grow with them."""

    def draw_seconds(self, rng: random.Random) -> float:
        """How long an episode takes."""
        place = rng.random() * (len(self.seconds) - 1)
        low = int(place)
        return self.seconds[low] + (place - low) * (self.seconds[low + 1] - self.seconds[low])

    def trajectory(self, rng: random.Random, sample: int = 0) -> Trajectory:
        """An episode of random tokens and words."""
        turns = rng.choice(self.turns)

        def ids(mean: int) -> list[int]:
            return [rng.randrange(150_000) for _ in range(round(mean * rng.uniform(0.4, 1.6)))]

        spans = [(ids(self.observation if turn else self.prompt), ids(self.action)) for turn in range(turns)]
        logprobs = [array("f", [-rng.expovariate(2.0) for _ in action]).tolist() for _, action in spans]
        texts = [" ".join(rng.choices(WORDS, k=max(1, len(action) * 3 // 4))) for _, action in spans]
        reward = float(rng.random() < 0.5)
        made = make_trajectory(
            spans, sample=sample, logprobs=logprobs, texts=texts, reward=reward,
            rewards={"exact_match": reward, "format": 1.0}, answer="an answer", reason="answer",
            turn_rewards=[0.0] * turns,
            state_keys=[f"{rng.getrandbits(64):x}" for _ in spans],
        )  # fmt: skip
        for turn, (observation, action) in zip(made.turns, spans, strict=True):
            said = " ".join(rng.choices(WORDS, k=max(1, len(observation) * 3 // 4)))
            turn.observation = [{"role": "tool" if turn.index else "user", "content": said}]
            turn.rewards, turn.versions = {"env": 0.0}, ((0, len(action)),)
            if turn.index + 1 < turns:
                turn.calls = [CallRecord("wiki_search", {"query": texts[turn.index][:40]}, None, 0.3)]
        return made


@dataclass
class Played:
    """What all workers have in common."""

    load: Load
    meter: Meter
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    in_flight: int = 0
    most: int = 0
    """Episodes in flight at once."""
    reports: int = 0
    kinds: list[bytes] = field(default_factory=list)
    """Pickled, so that no two episodes share an object, which pickle would send once."""

    def __post_init__(self) -> None:
        made = [self.load.trajectory(self.rng, sample=number % 8) for number in range(KINDS)]
        self.kinds = [pickle.dumps(packed(one)) for one in made]

    def count(self, episodes: int) -> None:
        """Episodes have begun, or ended."""
        self.in_flight += episodes
        self.most = max(self.most, self.in_flight)


class SimulatedWorker:
    """A rollout worker whose episodes take time and nothing else."""

    place = "nowhere"

    def __init__(self, number: int, played: Played) -> None:
        self.name = f"rollout worker {number}"
        self._played = played
        self._running: list[tuple[float, int, int, Any, int]] = []
        """A heap of the moments at which episodes end, with job, plan and call."""
        self._begun: Callable[[], None] | None = None
        """Wakes a report that waits for the next end of an episode."""
        self._calls = 0

    async def start(self) -> dict[str, dict[str, Any]]:
        """Nothing to open."""
        return {"train": {}}

    async def submit(self, jobs: Sequence[Job]) -> None:
        """Begin to play."""
        with self._played.meter.part("jobs"):
            sent = pickle.dumps(jobs, protocol=5)
        with self._played.meter.part(SIMULATION):
            now = asyncio.get_running_loop().time()
            for job in pickle.loads(sent):
                for plan in job.plans:
                    ends = now + self._played.load.draw_seconds(self._played.rng)
                    heapq.heappush(self._running, (ends, job.id, plan.index, plan, job.call))
                self._played.count(len(job.plans))
            if self._begun is not None:
                self._begun()

    async def report(self, gather: float, most: int) -> Report:
        """What has happened since the last report, as a RolloutHost tells it."""
        with self._played.meter.part(SIMULATION):
            loop = asyncio.get_running_loop()
            asked, answer = loop.time() + TRIP / 2, loop.create_future()
            timer: list[asyncio.TimerHandle] = []

            def wait() -> None:
                for old in timer:
                    old.cancel()
                timer[:] = [loop.call_at(self._told_at(asked, gather, most) + TRIP / 2, _set, answer)]

            self._begun = wait
            wait()
        await answer
        with self._played.meter.part(SIMULATION):
            self._begun = None
            sent = pickle.dumps(self._report(loop.time() - TRIP / 2), protocol=5)
        with self._played.meter.part("reports"):
            report: Report = pickle.loads(sent)
        return report

    def _told_at(self, asked: float, gather: float, most: int) -> float:
        """When a report is given that was asked for at this moment."""
        if not self._running or self._running[0][0] > asked + PATIENCE:
            return asked + PATIENCE
        first = max(asked, self._running[0][0])
        left, ended = Counter(one[4] for one in self._running), 0
        for ends, *_, call in sorted(self._running, key=itemgetter(0)):
            if ends > first + gather:
                break
            left[call], ended = left[call] - 1, ended + 1
            if not left[call] or ended >= most:
                return max(asked, ends)
        return first + gather

    def _report(self, moment: float) -> Report:
        played, finished = self._played, []
        while self._running and self._running[0][0] <= moment:
            _, job, index, plan, _ = heapq.heappop(self._running)
            one: Trajectory = pickle.loads(played.kinds[index % KINDS])
            vars(one)["task"] = plan.task  # and it stays packed
            finished.append((job, index, one))
            self._calls += tally(one).calls
        played.count(-len(finished))
        played.reports += 1
        tools = ToolCounts({"wiki_search": ToolCount(self._calls, 0, 0, 0.3 * self._calls)})
        return Report(finished, (), CallCounts(tools))

    async def load_weights(self, weights: Any, version: int) -> None:
        """Takes no time."""

    async def rest(self) -> None:
        """Takes no time."""

    async def cancel(self, jobs: Sequence[int]) -> None:
        """Forget jobs."""
        self._running = [one for one in self._running if one[1] not in set(jobs)]
        heapq.heapify(self._running)

    async def close(self) -> None:
        """Nothing to release."""

    def kill(self) -> None:
        """Nothing to end."""


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def tasks(count: int) -> list[Task]:
    """Questions with their answers and facts, as those of a data set."""
    rng = random.Random(1)
    return [
        Task(
            f"train/{number:08d}",
            " ".join(rng.choices(WORDS, k=20)),
            ("an answer",),
            metadata={"source": "hotpotqa", "supporting": rng.choices(WORDS, k=4), "level": "hard"},
        )
        for number in range(count)
    ]
