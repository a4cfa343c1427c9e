"""How many episodes does turn-level credit save? A lake of 6x6, where the goal is ten turns away and twelve are all.

    python benchmarks/turn_credit.py

Arms, all with PPO's critic: `outcome` (PPO; 1 at the goal, which aimless play hardly ever finds), `process` (PPO, and
the process reward `env.nearer`: 0.1 for each step by which a turn makes the way to the goal shorter than it has been),
`turn` (turn-level GAE with the same rewards). The second arm separates what the reward does from what the credit does.

All arms get the same tuning: each learning rate of `--lrs` with `--tuning-seeds`, and the one with the largest mean
area under the curve of held-out success is kept. The comparison has other seeds.

`episodes` counts training episodes until greedy play crosses the share `--score` of the held-out maps, linear between
evaluations. A run that never does counts with all its episodes, so that the mean is then too low; `reached` says how
many did. Intervals are of Student's t over seeds; differences are paired by seed.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Sequence
from typing import Any

import arms
import report

from agent_r1_core.runs.run import Run

SCORE, PROCESS = "success", "env.nearer=0.1"
CREDIT: dict[str, tuple[str, ...]] = {
    "outcome": ("algorithm=ppo",),
    "process": ("algorithm=ppo", PROCESS),
    "turn": ("algorithm=turn_gae", PROCESS),
}
LAKE = ("env.size=6", "env.success_rate=0.9", "env.max_turns=12", "training.samples_per_task=8", "checkpoint.best=null")
CRITIC = ("training.critic_lr=1e-3", "training.critic_warmup=2")
QUICK = ("training.tasks_per_step=2", "tasks.train.size=16")
PAIRS = (("turn", "outcome"), ("turn", "process"), ("process", "outcome"))


def arguments() -> argparse.Namespace:
    """The command line."""
    options = arms.parser(__doc__, "turn_credit")
    options.add_argument("--steps", type=int, default=24, help="training steps of a run, 64 episodes each")
    options.add_argument("--every", type=int, default=3, help="steps between evaluations")
    options.add_argument("--maps", type=int, default=200, help="held-out maps of an evaluation")
    options.add_argument("--score", type=float, default=0.1, help="the success to be reached")
    options.add_argument("--lrs", type=float, nargs="+", default=[3e-4, 6e-4], help="learning rates to choose from")
    options.add_argument("--tuning-seeds", type=int, nargs="+", default=[100])
    chosen = arms.parse(options)
    if chosen.quick:
        chosen.steps, chosen.every, chosen.maps, chosen.lrs = 3, 3, 4, chosen.lrs[:1]
    return chosen


def arm(name: str, lr: float) -> arms.Arm:
    """An arm with a learning rate."""
    return arms.Arm(f"{name} lr {lr:g}", (*LAKE, *CRITIC, *CREDIT[name], f"training.lr={lr:g}"), "frozen_lake")


def area(run: Run) -> float:
    """Mean height of the curve of held-out success."""
    return arms.area(run, SCORE)


def last(run: Run) -> float:
    """Held-out success after training."""
    return arms.last(run, SCORE)


def tuned(options: argparse.Namespace, names: Sequence[str], common: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The area under the curve of each learning rate, and the best one, by arm."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        runs = arms.run_all(options.home, [arm(name, lr) for lr in options.lrs], options.tuning_seeds, common)
        areas = {lr: statistics.fmean(area(run) for run in runs[arm(name, lr).name].values()) for lr in options.lrs}
        found[name] = {"arm": name, **{f"lr {lr:g}": area for lr, area in areas.items()}}
        found[name]["kept"] = max(areas, key=lambda lr: areas[lr])
    return found


def episodes_to(score: float, run: Run) -> tuple[float, bool]:
    """Training episodes until an evaluation reaches `score`, and whether one does."""
    played = [0.0, *itertools.accumulate(line["rollout/episodes"] for line in run.metrics())]
    points = arms.evaluated(run, SCORE)
    if points[0][1] >= score:
        return 0.0, True
    for (before, low), (step, high) in itertools.pairwise(points):
        if high >= score:
            return played[before] + (score - low) / (high - low) * (played[step] - played[before]), True
    return played[-1], False


def main() -> None:
    options = arguments()
    common = [f"training.steps={options.steps}", f"evaluation.every={options.every}"]
    common += [f"evaluation.size={options.maps}", *(QUICK if options.quick else ())]
    names = ["turn"] if options.quick else list(CREDIT)
    tuning = {} if options.quick else tuned(options, names, common)
    rates = {name: tuning[name]["kept"] if tuning else options.lrs[0] for name in names}
    trained = arms.run_all(options.home, [arm(name, rates[name]) for name in names], options.seeds, common)
    runs = {name: trained[arm(name, rates[name]).name] for name in names}
    columns = {
        "episodes": arms.scores(runs, lambda run: episodes_to(options.score, run)[0]),
        "area": arms.scores(runs, area),
        "at the end": arms.scores(runs, last),
    }
    table = arms.table(columns)
    for row in table:
        reached = sum(episodes_to(options.score, run)[1] for run in runs[row["arm"]].values())
        row |= {"reached": f"{reached} of {row['seeds']}", "lr": f"{rates[row['arm']]:g}"}
    differences = arms.differences(columns, [pair for pair in PAIRS if set(pair) <= set(names)])
    if tuning:
        report.show(f"Tuning: area with seeds {options.tuning_seeds}", list(tuning.values()))
    report.show(f"Episodes until a success of {options.score:g}, seeds {options.seeds}, 95 % t intervals", table)
    report.show("Differences, paired by seed", differences)
    results = {"tuning": list(tuning.values()), "arms": table, "differences": differences}
    report.save(options.out, options, results | {"runs": list(arms.rows(columns))})


if __name__ == "__main__":
    main()
