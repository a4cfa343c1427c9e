"""How much of a step is the controller's with 256 and 512 rollout workers, by value and by reference?

    python benchmarks/controller.py

The real dispatcher with simulated workers (coroutines; no model, no Ray), 128 episodes in flight in each, in virtual
time: a step of minutes takes as long as the controller computes. The load `3B` is assumed: episodes of 1,600 tokens and
6.9 s on the mean, an update of 26.5 s. `value`: workers report packed episodes, and the controller sends them on;
`reference`: a relay has stored them. Then what Ray adds is measured with real actors, and a real relay, that report as
often, each for many workers; that row has unpickling and the event loop, too, so the sum leaves the simulated ones out.
All is processor time of the controller's process, all threads, for an episode. Each row is a fresh process. `--scale`
lets a worker play fewer episodes at once, for machines with little memory: by value an episode takes 70 KB.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
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
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy
import ray
import report
from agent_r1_ray import relay, stored
from agent_r1_ray.dispatcher import Dispatcher
from agent_r1_ray.jobs import PATIENCE, Job, Report
from agent_r1_ray.packed import packed
from agent_r1_ray.rollouts import Garbage

from agent_r1_core.contracts.token_numbers import TokenNumbers
from agent_r1_core.rollout import RolloutRequest
from agent_r1_core.rollout.plan import EpisodePlan, plan_episodes
from agent_r1_core.rollout.result import RolloutResult
from agent_r1_core.runs.trajectory_file import row_groups, table_of, write_tables
from agent_r1_core.testing import make_trajectory
from agent_r1_core.trajectory import CallRecord, Task, Trajectory

GROUP, KINDS = 8, 64
"""Episodes of a group; episodes that differ."""
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
            one: Trajectory = pickle.loads(self._kinds[index % KINDS])
            vars(one)["task"] = task  # and it stays packed
            finished.append((job, index, one))
        self._counts["reports"] += bool(finished)
        return Report(finished)

    async def close(self) -> None:
        return

    def kill(self) -> None:
        return


def tasks(count: int) -> list[Task]:
    """Questions with their answers and facts, as those of a data set."""
    rng = random.Random(1)
    about = {"source": "hotpotqa", "supporting": rng.choices(WORDS, k=4), "level": "hard"}
    return [
        Task(f"train/{k:08d}", " ".join(rng.choices(WORDS, k=20)), ("an answer",), None, about) for k in range(count)
    ]


def simulated(by: str, workers: int, each: int) -> dict[str, float]:
    """A step; milliseconds for an episode by part, and its share."""
    meter, rng, counts = Meter(), random.Random(0), Counter[str]()
    with meter.part(OUTSIDE):
        kinds = [pickle.dumps(packed(episode(rng, number % GROUP))) for number in range(KINDS)]
        asked = RolloutRequest(tasks(workers * each // GROUP), GROUP)
    row: dict[str, float] = {}

    async def step() -> None:
        make: Any = lambda number: SimulatedWorker(number, meter, kinds, by, counts)
        dispatcher = Dispatcher(make, workers, each)
        await dispatcher.start()
        Garbage().spare()
        loop, finished, begun = asyncio.get_running_loop(), dict[int, Trajectory](), asyncio.get_running_loop().time()
        before = Counter(meter.seconds)

        def keep(plan: EpisodePlan, one: Trajectory) -> None:
            finished[plan.index] = one

        with meter.part("plan, deal"):
            plans = plan_episodes(asked, 0)
            playing = asyncio.ensure_future(dispatcher.play(plans, keep))
            await asyncio.sleep(0)
        await playing
        with meter.part("groups, metrics"):
            episodes = [finished[plan.index] for plan in plans]
            rollout = RolloutResult.of(asked, episodes, loop.time() - begun, dispatcher.counts())
            assert rollout.metrics["rollout/episodes"] == len(plans)
        for part, value in (("to learner", rollout.groups), ("to writer", rollout.trajectories)):
            with meter.part(part):
                sent = stored.parcel(value)
            row[f"MB {part}"] = len(sent[0]) / 1e6
            del sent
        await asyncio.sleep(UPDATE)
        seconds = loop.time() - begun
        meter.total()
        spent = {part: meter.seconds[part] - before[part] for part in PARTS}
        row.update({part: 1000 * value / len(plans) for part, value in spent.items()})
        row.update({"ms/episode": 1000 * sum(spent.values()) / len(plans), "s/step": seconds})
        row["episodes/report"] = len(plans) / counts["reports"]
        await dispatcher.close()

    vars(stored)["ray"] = SimpleNamespace(put=lambda value: value)  # the copy into the store is not counted
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(meter)) as runner:
        runner.run(step())
    return row


class Reporter:
    """An actor that reports for many workers."""

    def __init__(self, kinds: Sequence[bytes]) -> None:
        self._kinds = kinds

    async def report(self, pause: float, size: int, urgent: bool) -> Report:
        await asyncio.sleep(pause)
        finished = [(0, k, pickle.loads(self._kinds[k % KINDS])) for k in range(size)]
        return Report(finished, urgent=urgent)

    async def rest(self) -> None:
        return


def shared(by: str, workers: int, size: int, seconds: float) -> dict[str, float]:
    """What real calls cost the controller, from real actors."""
    ray.init("local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, num_cpus=2,
             object_store_memory=1_000_000_000)  # fmt: skip
    found = asyncio.run(_called(by, workers, size, seconds))
    ray.shutdown()
    return found


async def _called(by: str, workers: int, size: int, seconds: float) -> dict[str, float]:
    """Reports at the mean rate of a step, and three orders of each worker."""
    rng, count = random.Random(0), 4
    kinds = ray.put([pickle.dumps(packed(episode(rng, number % GROUP))) for number in range(KINDS)])
    make: Any = ray.remote(Reporter)
    actors = [make.options(num_cpus=0, max_concurrency=512).remote(kinds) for _ in range(count)]
    spec = ray.put(SimpleNamespace(load_plugin_files=lambda: None))
    relays = [relay.Relay(spec) for _ in range(round(workers / relay.WORKERS))] if by == "reference" else []
    calls = [one.call for one in relays] or [relay.direct]
    await asyncio.gather(*(calls[k % len(calls)](actors[k % count], "rest") for k in range(4 * count)))
    Garbage().spare()
    rate = workers * EACH / 42 / size
    watchers = min(workers, max(4, round(rate * 4)))
    told, until, kept = 0, time.monotonic() + seconds, []

    async def watch(number: int) -> None:
        nonlocal told
        while time.monotonic() < until:
            pause = watchers / rate * random.uniform(0.8, 1.2)
            urgent = until - time.monotonic() < seconds * TAIL
            kept.append(await calls[number % len(calls)](actors[number % count], "report", pause, size, urgent))
            told += size

    used = time.process_time()
    await asyncio.gather(*(watch(number) for number in range(watchers)))
    reports = 1000 * (time.process_time() - used) / told
    used = time.process_time()
    sent = stored.parcel([one for found in kept for *_, one in found.finished]) if by == "reference" else []
    if sent:
        await asyncio.wait([asyncio.wrap_future(stored.assembled.remote(spec, *sent).future())])
    passed = 1000 * (time.process_time() - used) / told
    kept.clear()
    sent.clear()
    used = time.process_time()
    await asyncio.gather(*(calls[k % len(calls)](actors[k % count], "rest") for k in range(workers)))
    order = 1000 * (time.process_time() - used) / workers
    for one in relays:
        one.close()
    return {"reports": reports, "orders": 3 * order / EACH, "send on": passed, "ms of an order": order}


def written() -> dict[str, float]:
    """Milliseconds of an episode in the writer's processes."""
    rng = random.Random(0)
    sent = [pickle.dumps(packed(episode(rng, number))) for number in range(512)]
    own = [pickle.loads(one) for one in sent]
    ends = list(itertools.accumulate(one.tokens for one in own))
    spans = {one.id: (start, stop) for one, start, stop in zip(own, [0, *ends], ends, strict=False)}
    numbers = TokenNumbers(spans, *(numpy.random.default_rng(0).random(ends[-1], numpy.float32) for _ in range(2)))
    begun = time.thread_time()
    tables = [table_of(1, part, numbers) for part in row_groups(own)]
    made = time.thread_time()
    with TemporaryDirectory() as folder:
        write_tables(Path(folder, "file"), tables)
    return {"rows": 1000 * (made - begun) / len(own), "file": 1000 * (time.thread_time() - made) / len(own)}


def main() -> None:
    parser = report.parser(__doc__, "controller")
    parser.add_argument("--workers", type=int, nargs="+", default=[256, 512])
    parser.add_argument("--scale", type=int, default=1, help="by value a worker plays so many times fewer episodes")
    parser.add_argument("--seconds", type=float, default=15.0, help="of a measurement with real actors")
    options = report.chosen(parser, workers=[2], scale=8, seconds=1.0)
    rows = []
    for by, workers in itertools.product(("value", "reference"), options.workers):
        scale = options.scale if by == "value" else 1
        parts = report.afresh(simulated, by, workers, EACH // scale)
        parts["episodes/report"] *= scale  # a worker that plays fewer episodes has fewer to report
        own = report.afresh(shared, by, workers, round(parts["episodes/report"]), options.seconds)
        real = own["reports"] + own["orders"] + own["send on"]
        total = parts["ms/episode"] - parts["unpickle"] - parts["event loop"] + real
        share = 100 * total / 1000 * workers * EACH / parts["s/step"]
        rows.append({"by": by, "workers": workers, **parts, **own, "sum": total, "share %": share})
        print(by, workers, f"{total:.3g} ms, {share:.3g} %", flush=True)
    report.show("The controller's processor time, ms for an episode", rows)
    files = report.afresh(written)
    report.show("The writer's processes, ms for an episode", [files])
    report.save(options.out, options, {"rows": rows, "files": files})


if __name__ == "__main__":
    main()
