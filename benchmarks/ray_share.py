"""What do Ray's calls cost the controller, with 1 to 16 real actors, and by extrapolation with 512?

    python benchmarks/ray_share.py

Actors without a model answer `report` with ready trajectories at a steady rate, and the controller asks again, as its
dispatcher does. What it costs is the processor time of all threads of the driver, Ray's own too, without unpickling the
trajectories (which benchmarks/controller.py counts). A straight line through the processor time of a second, by actors,
is drawn out to 256 and 512: nothing was measured there. More than these actors make the line less certain, since all
run on one machine. Submitting a job is measured call by call. Raylet and GCS are processes of their own and not
counted.
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

from controller import LOADS  # noqa: E402
from simulated import tasks  # noqa: E402

from agent_r1_core.distributed.jobs import Job, Report  # noqa: E402
from agent_r1_core.rollout import RolloutRequest  # noqa: E402
from agent_r1_core.rollout.plan import plan_episodes  # noqa: E402
from agent_r1_core.trajectory import Trajectory  # noqa: E402

BEYOND = (256, 512)
"""Actors to which the line is drawn out."""
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
    options.add_argument("--actors", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    options.add_argument("--load", default="3B", choices=list(LOADS), help="whose trajectories they send")
    options.add_argument("--rate", type=float, default=10.0, help="reports of an actor in a second")
    options.add_argument("--seconds", type=float, default=5.0, help="of a measurement")
    options.add_argument("--repeats", type=int, default=3, help="measurements of a row; the median is reported")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.actors, chosen.seconds, chosen.repeats = [1, 2], 0.5, 1
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
        await answer(actor.submit.remote([Job(number, "train", False, 0, plans)]))
    return 1000 * (time.process_time() - used) / jobs


def unpickling_seconds(episodes: Sequence[Trajectory]) -> float:
    """Processor time of unpickling one of these in a report."""
    sent = [pickle.dumps(Report([(0, 0, one)]), protocol=5) for one in episodes] * 4
    used = time.process_time()
    for one in sent:
        pickle.loads(one)
    return (time.process_time() - used) / len(sent)


def extrapolated(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The line through the processor time of a second by actors, and where it leads."""
    line = report.line_through([(row["actors"], row["ms/s"]) for row in rows])
    rate = statistics.median(row["reports/s"] / row["actors"] for row in rows)
    return [
        {
            "actors": f"{actors}, extrapolated",
            "ms/s": line["intercept"] + line["slope"] * actors,
            "ms/report": (line["intercept"] + line["slope"] * actors) / (actors * rate),
            "r2 of the line": line["r2"],
        }
        for actors in BEYOND
    ]


async def measured(options: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The tables by actors and of calls."""
    import ray

    load, rng = LOADS[options.load], random.Random(0)
    episodes = [load.trajectory(rng) for _ in range(16)]
    unpickling = unpickling_seconds(episodes)
    remote: Any = ray.remote
    make = remote(num_cpus=0, max_concurrency=64)(Reporter)
    stored = ray.put(episodes)
    actors = [make.remote(stored) for _ in range(max(options.actors))]
    await asyncio.gather(*(actor.submit.remote([]) for actor in actors))
    rows = []
    for count in options.actors:
        found = [
            await reported(actors[:count], options.seconds, options.rate, 1, unpickling) for _ in range(options.repeats)
        ]
        rows.append({"actors": count, **{key: statistics.median(one[key] for one in found) for key in found[0]}})
    last, rate = options.actors[-1], options.rate / 8
    together = [await reported(actors[:last], options.seconds, rate, 8, unpickling) for _ in range(options.repeats)]
    calls = [
        {"call": "report of 1 episode", "ms": rows[-1]["ms/report"]},
        {"call": "report of 8 episodes", "ms": statistics.median(one["ms/report"] for one in together)},
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
    beyond = extrapolated(rows)
    report.show("Ray's processor time in the driver, reports of one episode", rows)
    report.show("Drawn out, not measured", beyond)
    report.show("Calls, ms of processor time", calls)
    report.save(options.out, options, {"rows": rows, "extrapolated": beyond, "calls": calls})


if __name__ == "__main__":
    main()
