"""How many more episodes a second does a run train on when rollouts may be ahead of the learner, and what is it worth?

    python benchmarks/staleness.py
    python benchmarks/staleness.py --workers 1 --steps 12

The default recipe, whose `wiki_search` takes 300 ms on the mean, log-normal with sigma 1: one call in a hundred takes
six times as long. Arms: `training.max_staleness` 0 (rollouts and updates take turns), 1 and 2. All arms have the same
tasks, the same latencies, and as many episodes at once (`engine.max_episodes`: those of one step). In one process;
with `--workers N` that many rollout workers on Ray play, and the process of the command learns.

Per run, then medians over seeds: episodes a second over all steps, evaluations left out; shares of a step that learner
and rollouts wait; versions that a token is older than the weights that learn from it; importance weights. Ratios to
staleness 0 are paired by seed. Exact match on the evaluation set after all steps, so after equally many episodes: mean
with t interval over seeds. The arms of a seed follow one another, so that a busy hour hits all of them; `load` is how
many processes wanted to run at a time in the last minute of a run.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import arms
import report

from agent_r1_core.metrics import declared as metric
from agent_r1_core.runs.run import Run

COLUMNS = {
    "learner waits": metric.TIME_LEARNER_WAITS,
    "rollouts wait": metric.TIME_ROLLOUTS_WAIT,
    "rollout s": metric.TIME_ROLLOUT,
    "update s": metric.TIME_UPDATE,
    "token age": metric.ROLLOUT_STALENESS,
    "importance weight": metric.UPDATE_IMPORTANCE_WEIGHT,
    "clipped": metric.UPDATE_IMPORTANCE_CLIPPED,
}
PLUGIN = Path(__file__).with_name("slow_search.py")


def arguments() -> argparse.Namespace:
    """The command line."""
    options = arms.parser(__doc__, "staleness", seeds=3)
    options.add_argument("--staleness", type=int, nargs="+", default=[0, 1, 2], help="the first is compared with")
    options.add_argument("--steps", type=int, default=12, help="training steps of a run")
    options.add_argument("--tasks", type=int, default=16, help="tasks of a step")
    options.add_argument("--samples", type=int, default=8, help="episodes of a task")
    options.add_argument("--latency", type=float, default=0.3, help="mean seconds of a call")
    options.add_argument("--tail", type=float, default=1.0, help="sigma of its logarithm")
    options.add_argument("--workers", type=int, default=0, help="rollout workers on Ray; 0: one process")
    options.add_argument("--questions", type=int, default=200, help="of the evaluation")
    chosen = arms.parse(options)
    if chosen.quick:
        chosen.staleness, chosen.steps, chosen.latency = [0, 1], 2, 0.02
        chosen.tasks, chosen.samples, chosen.questions = 2, 2, 2
    return chosen


def settings(options: argparse.Namespace) -> list[str]:
    """What all arms change of the recipe."""
    tool = f"name: slow_search/wiki_search, top_k: 1, timeout: 60, latency: {options.latency}, tail: {options.tail}"
    return [
        *("--plugin", str(PLUGIN), f"tools=[{{{tool}}}]", f"training.steps={options.steps}"),
        *(f"training.tasks_per_step={options.tasks}", f"training.samples_per_task={options.samples}"),
        f"engine.max_episodes={options.tasks * options.samples}",
        *(f"evaluation.size={options.questions}", "evaluation.every=0", "evaluation.at_start=false"),
        *("checkpoint.every=1000", "checkpoint.best=null"),
        *((f"distributed.rollout_workers={options.workers}",) if options.workers else ()),
    ]


def episodes_a_second(run: Run) -> float:
    """From the first step to the last."""
    lines = run.metrics()
    seconds = sum(line[metric.TIME_STEP] - line.get(metric.TIME_EVALUATION, 0.0) for line in lines)
    return float(sum(line[metric.ROLLOUT_EPISODES] for line in lines) / seconds)


def mean(run: Run, name: str) -> float | None:
    """Of a metric, over the steps that report it; that with the evaluation is left out."""
    values = [line[name] for line in run.metrics() if name in line and metric.TIME_EVALUATION not in line]
    return statistics.fmean(values) if values else None


def row(arm: str, runs: Mapping[int, Run], first: Mapping[int, Run], loads: Sequence[float]) -> dict[str, Any]:
    """Medians over the seeds of an arm."""
    ratios = [episodes_a_second(run) / episodes_a_second(first[seed]) for seed, run in runs.items()]
    found: dict[str, Any] = {
        "arm": arm,
        "episodes/s": statistics.median(map(episodes_a_second, runs.values())),
        "times the first": statistics.median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
    }
    for column, name in COLUMNS.items():
        values = [value for run in runs.values() if (value := mean(run, name)) is not None]
        found[column] = statistics.median(values) if values else None
    return found | {"load": statistics.median(loads) if loads else None}


def main() -> None:
    options = arguments()
    compared = [arms.Arm(f"staleness {k}", (f"training.max_staleness={k}",)) for k in options.staleness]
    runs: dict[str, dict[int, Run]] = {arm.name: {} for arm in compared}
    loads: dict[str, list[float]] = {arm.name: [] for arm in compared}
    for seed in options.seeds:
        for arm in compared:
            runs[arm.name][seed] = arms.trained(options.home, arm, seed, settings(options))
            loads[arm.name].append(os.getloadavg()[0])
    names = [arm.name for arm in compared]
    speed = [row(name, runs[name], runs[names[0]], loads[name]) for name in names]
    where = f"{options.workers} rollout workers on Ray" if options.workers else "one process"
    size = options.tasks * options.samples
    report.show(f"{options.steps} steps of {size} episodes, {where}, seeds {options.seeds}", speed)
    columns = {"exact match": arms.scores(runs, arms.last), "episodes/s": arms.scores(runs, episodes_a_second)}
    table, differences = arms.table(columns), arms.differences(columns, [(name, names[0]) for name in names[1:]])
    report.show("After all steps, mean over seeds with 95 % t intervals", table)
    report.show("Differences, paired by seed", differences)
    tables = {"speed": speed, "arms": table, "differences": differences, "runs": list(arms.rows(columns))}
    report.save(options.out, options, tables)


if __name__ == "__main__":
    main()
