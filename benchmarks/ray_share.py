"""What do Ray's calls cost the controller, with 1 to 8 real actors that report as 1 to 256 rollout workers do?

    python benchmarks/ray_share.py

Actors without a model answer `report` with ready episodes, packed as on their way from a worker, and the controller
asks again, as its dispatcher does: all workers together report about 50 times a second, so that the reports of many
workers hold many episodes. At most 8 actors run here; where there are more workers, each reports for several. What it
costs is the processor time of all threads of the driver, Ray's own too, without unpickling the episodes (which
benchmarks/controller.py counts). Submitting a job is measured call by call. Raylet and GCS are processes of their own
and not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import pickle
import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

import report

for name, value in (report.CALM | {"RAY_USAGE_STATS_ENABLED": "0"}).items():
    os.environ.setdefault(name, value)

from controller import EACH, LOADS  # noqa: E402
from simulated import tasks  # noqa: E402

from agent_r1_core.distributed.dispatcher import REPORTS  # noqa: E402
from agent_r1_core.distributed.jobs import Job, Report  # noqa: E402
from agent_r1_core.distributed.packed import packed  # noqa: E402
from agent_r1_core.rollout import RolloutRequest  # noqa: E402
from agent_r1_core.rollout.plan import plan_episodes  # noqa: E402
from agent_r1_core.trajectory import Trajectory  # noqa: E402

MOST = 8
"""Actors."""
SILENCE = 30.0


class Reporter:
    """The actor: as many reports a second as it is told, with so many episodes each."""

    def __init__(self, episodes: Sequence[Trajectory]) -> None:
        self._episodes = list(episodes)
        self._next = 0.0

    async def report(self, pause: float, size: int) -> Report:
        """Episodes that have ended `pause` seconds after those of the last report."""
        self._next = max(self._next + pause, time.monotonic())
        await asyncio.sleep(self._next - time.monotonic())
        return Report([(0, k, self._episodes[k % len(self._episodes)]) for k in range(size)])

    async def submit(self, jobs: Sequence[Job]) -> int:
        """Take jobs."""
        return len(jobs)


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "ray_share")
    options.add_argument("--workers", type=int, nargs="+", default=[1, 4, 16, 64, 256])
    options.add_argument("--load", default="3B", choices=list(LOADS), help="whose trajectories they send")
    options.add_argument("--seconds", type=float, default=5.0, help="of a measurement")
    options.add_argument("--repeats", type=int, default=3, help="measurements of a row; the median is reported")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.workers, chosen.seconds, chosen.repeats = [1, 2], 0.5, 1
    return chosen


async def reported(
    actors: Sequence[Any], seconds: float, rate: float, size: int, unpickling: float
) -> dict[str, float]:
    """One measurement: Ray's processor time in the driver."""
    from agent_r1_core.distributed.remote import answer

    reports, until = 0, time.monotonic() + seconds

    async def watch(actor: Any) -> None:
        nonlocal reports
        while time.monotonic() < until:
            got: Report = await asyncio.wait_for(answer(actor.report.remote(1 / rate, size)), SILENCE)
            assert len(got.finished) == size
            reports += 1

    begun, used = time.monotonic(), time.process_time()
    await asyncio.gather(*(watch(actor) for actor in actors))
    used, wall = time.process_time() - used, time.monotonic() - begun
    own = used - reports * size * unpickling
    return {"reports/s": reports / wall, "ms/report": 1000 * own / reports, "ms/s": 1000 * own / wall}


async def submitted(actor: Any, jobs: int) -> float:
    """Milliseconds of the driver's processor time for a call with one job."""
    from agent_r1_core.distributed.remote import answer

    plans = plan_episodes(RolloutRequest(tasks(1), 8), 0)
    used = time.process_time()
    for number in range(jobs):
        await answer(actor.submit.remote([Job(number, 0, "train", False, 0, plans)]))
    return 1000 * (time.process_time() - used) / jobs


def unpickling_seconds(episodes: Sequence[Trajectory]) -> float:
    """Processor time of unpickling one of these in a report."""
    sent = [pickle.dumps(Report([(0, 0, one)]), protocol=5) for one in episodes] * 16
    used = time.process_time()
    for one in sent:
        pickle.loads(one)
    return (time.process_time() - used) / len(sent)


async def measured(options: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The tables by workers and of calls."""
    import ray

    load, rng = LOADS[options.load], random.Random(0)
    episodes = [packed(load.trajectory(rng)) for _ in range(128)]
    unpickling, ended = unpickling_seconds(episodes), EACH / statistics.fmean(load.seconds)
    remote: Any = ray.remote
    make = remote(num_cpus=0, max_concurrency=64)(Reporter)
    stored = ray.put(episodes)
    actors = [make.remote(stored) for _ in range(min(MOST, max(options.workers)))]
    await asyncio.gather(*(actor.submit.remote([]) for actor in actors))
    rows = []
    for workers in options.workers:
        own, size = actors[:workers], max(1, round(ended * workers / REPORTS))
        rate = min(REPORTS, ended * workers) / len(own)
        found = [await reported(own, options.seconds, rate, size, unpickling) for _ in range(options.repeats)]
        medians = {key: statistics.median(one[key] for one in found) for key in found[0]}
        each = {"ms/episode": medians["ms/report"] / size}
        rows.append({"workers": workers, "actors": len(own), "episodes/report": size, **medians, **each})
    calls = [
        {"call": "submit of 8 episodes", "ms": statistics.median([await submitted(actors[0], 100) for _ in range(3)])},
        {"call": "unpickling of 1 episode (not Ray's)", "ms": 1000 * unpickling},
    ]
    return rows, calls


def main() -> None:
    options = arguments()
    import ray

    ray.init("local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, num_cpus=2)
    try:
        rows, calls = asyncio.run(measured(options))
    finally:
        ray.shutdown()
    report.show("Ray's processor time in the driver, without unpickling", rows)
    report.show("Calls, ms of processor time", calls)
    report.save(options.out, options, {"rows": rows, "calls": calls})


if __name__ == "__main__":
    main()
