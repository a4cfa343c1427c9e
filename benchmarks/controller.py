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
import itertools
import logging
import pickle
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy
import ray
import report
from agent_r1_ray import relay, stored
from agent_r1_ray.dispatcher import Dispatcher
from agent_r1_ray.jobs import Report
from agent_r1_ray.packed import packed
from agent_r1_ray.rollouts import Garbage
from simulated_workers import EACH, OUTSIDE, PARTS, TAIL, UPDATE, WORDS, Meter, SimulatedWorker, VirtualLoop, episode

from agent_r1_core.contracts.token_numbers import TokenNumbers
from agent_r1_core.rollout import RolloutRequest
from agent_r1_core.rollout.plan import EpisodePlan, plan_episodes
from agent_r1_core.rollout.result import RolloutResult
from agent_r1_core.runs.trajectory_file import row_groups, table_of, write_tables
from agent_r1_core.trajectory import Task, Trajectory

GROUP, KINDS = 8, 64
"""Episodes of a group; episodes that differ."""


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
