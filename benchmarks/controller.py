"""How much of a step is the controller's, with 1 to 512 rollout workers and up to 65,536 episodes in flight?

    python benchmarks/controller.py --picture docs/notes/controller.png
    python benchmarks/controller.py --profile 3B 64

The real dispatcher with simulated workers (coroutines; no model, no Ray), 128 episodes in flight in each, in virtual
time: a step of minutes takes as long as the controller computes. What a worker reports is pickled and unpickled, as on
Ray, and what follows the rollout is the real code, too: groups and metrics, pickling the groups for the learner and
the episodes for the writer, which is another process: `writer ms/episode` is its time, and a step waits for the file
of the one before. A row is a process of its own; its figures are medians over steps, in processor time, so that
other programs on the machine matter little. `share %` is the controller's part of the step, whether or not workers
play meanwhile. Loads: `default` and `slow-tool` are the default recipe, with instant searches and with searches of 300
ms and a heavy tail, as benchmarks/latencies.py measures it; `3B` is assumed (see LOADS). Ray's own work is not in
these rows: benchmarks/ray_share.py measures it.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import report

for name, value in report.CALM.items():
    os.environ.setdefault(name, value)

from simulated import Load  # noqa: E402
from simulated_step import PARTS, Simulation  # noqa: E402

EACH = 128
"""Episodes of a worker, all in flight at once."""
INSTANT = (
    0.771, 1.157, 1.206, 1.607, 1.684, 1.713, 1.733, 1.762, 1.823, 2.018, 2.052, 2.085, 2.099, 2.114, 2.128, 2.149,
    2.586, 2.632, 2.730, 2.789, 2.965,
)  # fmt: skip
SLOW = (
    0.794, 1.068, 1.237, 1.632, 1.739, 1.798, 1.848, 1.891, 1.987, 2.274, 2.358, 2.451, 2.562, 2.718, 3.008, 3.398,
    5.271, 5.334, 5.419, 5.487, 6.393,
)  # fmt: skip
"""Quantiles of the seconds of an episode: `python benchmarks/latencies.py`, the second with `--tool-seconds 0.3`."""
TURNS = (2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 5)
LOADS = {
    "default": Load(INSTANT, TURNS, prompt=25, action=14, observation=45, update=1.3),
    "slow-tool": Load(SLOW, TURNS, prompt=25, action=14, observation=45, update=1.3),
    "3B": Load(
        tuple(6.9 * value / statistics.fmean(SLOW) for value in SLOW),
        TURNS, prompt=350, action=130, observation=450, update=26.5,
    ),
}  # fmt: skip
"""3B is an assumption: multi-hop questions, a model of 3 B parameters, an H100 that learns for every one that plays.
Its episodes take 6.9 s on the mean, as long as benchmarks/step_time.py computes for playing 128 of them, spread like
those with the slow tool; the update takes the 26.5 s that it computes for 128 episodes on a card. In all loads learners
grow with the workers, so that an update takes equally long."""
BUDGET = 5.0
"""Per cent of a step that the controller should stay under."""


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "controller")
    options.add_argument("--loads", nargs="+", default=list(LOADS), choices=list(LOADS))
    options.add_argument("--workers", type=int, nargs="+", default=[1, 4, 16, 64, 256, 512])
    options.add_argument("--repeats", type=int, default=3, help="steps of a row; the median is reported")
    options.add_argument("--most", type=int, default=256, help="workers of the load 3B at most: 1 GB for 64 workers")
    options.add_argument("--picture", type=Path, help="also draw the table, to this file")
    options.add_argument("--profile", nargs=2, metavar=("LOAD", "WORKERS"), help="only show where a row's time goes")
    options.add_argument("--row", nargs=2, metavar=("LOAD", "WORKERS"), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.quick:
        chosen.workers, chosen.repeats = [1, 2], 1
    return chosen


def measured(load: str, workers: int, steps: int) -> dict[str, Any]:
    """A row of the table."""
    return Simulation(LOADS[load], workers, workers * EACH).run(steps)


def limits(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each load how many episodes a second the controller can take, and with how many workers its share of a step
    reaches the budget: a straight line through the shares of up to 64 workers, where steps are not yet longer."""
    table = []
    for load in dict.fromkeys(row["load"] for row in rows):
        own = [row for row in rows if row["load"] == load]
        fair = [row for row in own if row["share %"] < 50] or own[:1]
        share = statistics.median(row["share %"] / row["workers"] / (1 - row["share %"] / 100) for row in fair)
        table.append(
            {
                "load": load,
                "episodes/s": 1000 / statistics.median(row["ms/episode"] for row in own),
                f"workers at {BUDGET:g} %": BUDGET / (1 - BUDGET / 100) / share,
                "largest part": max(PARTS.values(), key=lambda part: statistics.median(row[part] for row in own)),
                "KB in memory of an episode": 1000 * own[-1]["peak MB"] / own[-1]["in flight"],
            }
        )
    return table


def draw(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Left the share of a step by workers; right where the time of an episode goes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (shares, parts) = pyplot.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    names = list(dict.fromkeys(row["load"] for row in rows))
    for load in names:
        own = [row for row in rows if row["load"] == load]
        shares.loglog([row["workers"] for row in own], [row["share %"] for row in own], "o-", label=load)
    shares.axhline(BUDGET, color="grey", linestyle="--", linewidth=1)
    shares.set(title="share of a step that is the controller's, %", xlabel="rollout workers, 128 episodes each")
    shares.legend(fontsize=8)
    shares.grid(alpha=0.3)
    left = [0.0] * len(names)
    for part in PARTS.values():
        widths = [statistics.median(row[part] for row in rows if row["load"] == load) for load in names]
        parts.barh(names, widths, left=left, label=part)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    parts.set(title="processor time of an episode", xlabel="milliseconds")
    parts.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"\ndrawn to {path}")


def profile(load: str, workers: int) -> None:
    """Show the functions of one step in which most time is spent."""
    profiler = cProfile.Profile()
    profiler.runcall(measured, load, workers, 1)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def main() -> None:
    options = arguments()
    if options.profile:
        profile(options.profile[0], int(options.profile[1]))
        return
    if options.row:
        print(json.dumps(measured(options.row[0], int(options.row[1]), options.repeats)))
        return
    rows: list[dict[str, Any]] = []
    for load in options.loads:
        for workers in options.workers:
            if load == "3B" and workers > options.most:
                continue
            command = [sys.executable, __file__, "--row", load, str(workers), "--repeats", str(options.repeats)]
            rows.append({"load": load, "workers": workers, **report.fresh(command)})
            print(load, workers, f"{rows[-1]['ms/episode']:.3g} ms", flush=True)
    report.show("The controller's processor time, ms for an episode", rows)
    table = limits(rows)
    report.show("Limits", table)
    if options.picture is not None:
        draw(options.picture, rows)
    report.save(options.out, options, {"rows": rows, "limits": table})


if __name__ == "__main__":
    main()
