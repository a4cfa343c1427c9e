"""How long do the episodes of a worker take, and how many tokens have they?

    python benchmarks/latencies.py
    python benchmarks/latencies.py --tool-seconds 0.3

Plays and learns some steps of the default recipe in one process, 128 episodes at once, on one thread. With
--tool-seconds every search takes that much longer on the mean, with a heavy tail (log-normal, sigma 1). The quantiles
are what the simulated workers of benchmarks/controller.py draw from; they stand in benchmarks/controller.py.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import report

for name, value in report.CALM.items():
    os.environ.setdefault(name, value)


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "latencies")
    options.add_argument("--tool-seconds", type=float, default=0.0, help="what a search takes longer, on the mean")
    options.add_argument("--steps", type=int, default=6, help="steps; the first two do not count")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.steps = 3
    return chosen


def quantiles(values: Sequence[float]) -> list[float]:
    """The smallest value, the nineteen that divide the others into twenty equal parts, and the largest."""
    return [round(value, 3) for value in (min(values), *statistics.quantiles(values, n=20), max(values))]


def slow_searches(seconds: float) -> None:
    """Let every search of this process take longer."""
    from agent_r1_wiki_search.tool import WikiSearch

    search, rng = WikiSearch.run, random.Random(0)

    def run(self: WikiSearch, arguments: Any, context: Any) -> str:
        time.sleep(rng.lognormvariate(math.log(seconds) - 0.5, 1.0))
        return search(self, arguments, context)

    WikiSearch.run = run  # type: ignore[method-assign]


def main() -> None:
    options = arguments()
    if options.tool_seconds:
        slow_searches(options.tool_seconds)
    from agent_r1_core import train

    with tempfile.TemporaryDirectory() as folder:
        settings = {"steps": options.steps, "tasks_per_step": 2 if options.quick else 16}
        run = train(
            "default",
            [f"run.dir={folder}", "threads=1", "trackers=[]", "evaluation.every=0"]
            + ["evaluation.at_start=false", "evaluation.at_end=false"]
            + [f"training.{name}={value}" for name, value in settings.items()],
        )
        metrics = run.metrics()[2:]
        episodes = [one for step in range(3, options.steps + 1) for one in run.read_trajectories(step)]
    rows = [
        {"of": "seconds", "quantiles": quantiles([one.seconds for one in episodes])},
        {"of": "turns", "quantiles": quantiles([float(len(one.turns)) for one in episodes])},
        {"of": "prompt tokens", "quantiles": quantiles([float(one.segments[0].prompt_length) for one in episodes])},
        {"of": "tokens", "quantiles": quantiles([float(one.tokens) for one in episodes])},
        {"of": "sampled tokens", "quantiles": quantiles([float(one.action_tokens) for one in episodes])},
    ]
    for row in rows:
        print(f"{row['of']}: {row['quantiles']}")
    means = {name: statistics.fmean(line[name] for line in metrics) for name in ("time/rollout", "time/update")}
    report.show("Seconds of a step", [{"what": name, "s": value} for name, value in means.items()])
    report.save(options.out, options, {"latencies": rows, "steps": means})


if __name__ == "__main__":
    main()
