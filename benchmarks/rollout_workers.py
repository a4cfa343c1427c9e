"""How many episodes a second do two rollout workers on Ray play, compared with one, where a slow tool is the limit?

    python benchmarks/rollout_workers.py
    python benchmarks/rollout_workers.py --latency 0.3 --tail 1

The default recipe's model and questions; `wiki_search` takes a second on the mean. Compared are one worker, two workers
with as many episodes at once and in all for each, and one worker with twice as many of both: what raising
`engine.max_episodes` brings instead. Rollouts only. `controller ms` is the processor time of the command's process for
a rollout, all its threads, Ray's included; it computes nothing else, so that this is what dealing out episodes and
collecting them costs. `share` is that of the rollout's time.

All is on one local Ray. The layouts take turns; each time its workers start, play one small rollout to warm up, and
end. A row is the median over all rollouts of its layout. Workers share the machine's cores, so that a model that needs
them gains nothing here.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import report

for name, value in report.CALM.items():
    os.environ.setdefault(name, value)

PLUGIN = Path(__file__).with_name("slow_search.py")
GROUP = 8


@dataclass(frozen=True)
class Layout:
    """Who plays."""

    name: str
    workers: int
    load: int = 1
    """Times as many episodes for each worker."""


LAYOUTS = (Layout("one", 1), Layout("two", 2), Layout("one, twice the episodes", 1, 2))


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "rollout_workers")
    options.add_argument("--at-once", type=int, default=16, help="episodes at once in a worker")
    options.add_argument("--episodes", type=int, default=64, help="of a rollout, for each worker")
    options.add_argument("--latency", type=float, default=1.0, help="mean seconds of a call")
    options.add_argument("--tail", type=float, default=0.0, help="sigma of its logarithm")
    options.add_argument("--rollouts", type=int, default=3, help="of a layout, each time that it comes")
    options.add_argument("--repeats", type=int, default=2, help="how often each layout comes")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.at_once, chosen.episodes, chosen.latency, chosen.rollouts, chosen.repeats = 8, 8, 0.05, 1, 1
    return chosen


def recipe(layout: Layout, options: argparse.Namespace) -> Any:
    """The resolved recipe of a layout."""
    from agent_r1_core.training.api import resolve

    tool = f"name: slow_search/wiki_search, top_k: 1, timeout: 60, latency: {options.latency}, tail: {options.tail}"
    keys = [
        *(f"tools=[{{{tool}}}]", "threads=1", f"engine.max_episodes={layout.load * options.at_once}"),
        f"distributed.rollout_workers={layout.workers}",
    ]
    return resolve("default", keys, plugins=[PLUGIN], training=False)


async def play(resolved: Any, site: Any, layout: Layout, options: argparse.Namespace) -> list[dict[str, float]]:
    """Seconds, episodes and processor seconds of each rollout, after one that warms up."""
    from agent_r1_core.assembly.assembly import assemble
    from agent_r1_core.rollout import RolloutRequest

    assembly = assemble(resolved, learning=False, task_sets=("train",), site=site)
    tasks, found = assembly.train.tasks, []
    number = max(1, layout.workers * layout.load * options.episodes // GROUP)
    try:
        await assembly.start()
        await assembly.rollouts.collect(RolloutRequest(tasks[-layout.workers :], GROUP, "warm"))
        for turn in range(options.rollouts):
            chosen = tasks[turn * number : (turn + 1) * number]
            begun, cpu = time.perf_counter(), time.process_time()
            result = await assembly.rollouts.collect(RolloutRequest(chosen, GROUP, turn))
            cpu, seconds = time.process_time() - cpu, time.perf_counter() - begun
            found.append({"episodes": float(len(result.trajectories)), "seconds": seconds, "cpu": cpu})
    finally:
        await assembly.close()
    return found


def main() -> None:
    options = arguments()
    from agent_r1_core.config.models import DistributedConfig
    from agent_r1_core.distributed import RaySite
    from agent_r1_core.distributed.cluster import connected
    from agent_r1_core.work.running import run_async

    layouts = LAYOUTS[:2] if options.quick else LAYOUTS
    measured: dict[str, list[dict[str, float]]] = {layout.name: [] for layout in layouts}
    loads: dict[str, list[float]] = {layout.name: [] for layout in layouts}
    with connected(DistributedConfig()) as cluster:
        for layout in layouts * options.repeats:
            resolved = recipe(layout, options)
            site = RaySite(resolved.config.distributed, cluster, print, learning=False)
            try:
                measured[layout.name] += run_async(play(resolved, site, layout, options))
            finally:
                site.close()
            loads[layout.name].append(os.getloadavg()[0])
    rows: list[dict[str, Any]] = []
    for layout in layouts:
        own = measured[layout.name]
        rate = statistics.median(one["episodes"] / one["seconds"] for one in own)
        rows.append(
            {
                "workers": layout.name,
                "at once": layout.workers * layout.load * options.at_once,
                "episodes": own[0]["episodes"],
                "s": statistics.median(one["seconds"] for one in own),
                "episodes/s": rate,
                "times one": rate / rows[0]["episodes/s"] if rows else 1.0,
                "controller ms": 1000 * statistics.median(one["cpu"] for one in own),
                "ms/episode": 1000 * statistics.median(one["cpu"] / one["episodes"] for one in own),
                "share %": 100 * statistics.median(one["cpu"] / one["seconds"] for one in own),
                "load": statistics.median(loads[layout.name]),
            }
        )
    report.show(f"Rollouts, a tool of {options.latency:g} s", rows)
    report.save(options.out, options, {"rollout_workers": rows, "rollouts": measured})


if __name__ == "__main__":
    main()
