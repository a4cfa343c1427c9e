"""Does StarPO-S prevent a collapse that the same training has without it, and does the alarm come in time?

    python benchmarks/echo_trap.py --picture docs/echo_trap.png

An Echo Trap (RAGEN, arXiv 2504.20073): the policy falls into a few answers, returns within a group no longer tell good
from bad, and the reward falls. Here it is provoked on the bandit with groups of four. The risky arm is worth twelve
times the safe one, but pays once in ten pulls; so most groups hold no win, and in those a baseline of group mean and
standard deviation prefers the arm that paid 0.02 to the one that paid nothing. The policy echoes the safe arm, until no
group has any spread. Arms: `StarPO` (GRPO over whole trajectories) and `StarPO-S`, which differs in its options alone
(a critic's baseline, a wider upper clip, only the quarter of the groups whose returns differ most). `healthy` is StarPO
at the same learning rate, where the risky arm is worth as much and pays every other time.

The reward has fallen where its running mean over 5 steps is below half of its best so far. An alarm is the first of
the health monitors with their default thresholds; that of `reward` itself does not count. The thresholds of
`spread_without_gain` were fixed on the seeds 100 to 103 and on healthy runs of other experiments. On runs whose reward
does not fall every alarm is a false one; --watch names folders with further healthy runs to count them on.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import arms
import report

from agent_r1_core.health.settings import HealthConfig
from agent_r1_core.health.watch import Watch
from agent_r1_core.runs.run import Run

WINDOW = 5
"""Steps of a running mean."""
CURVES = {
    "health/group_std": "in-group std of returns",
    "update/entropy": "entropy, nats",
    "reward/mean": "reward",
    "update/grad_norm": "gradient norm",
}
BANDIT = "env={{name: bandit, safe_pay: 0.02, risky_pay: {}, risky_chance: {}}}"
TRAP, PLAIN = BANDIT.format(2.5, 0.1), BANDIT.format(0.5, 0.5)
ARMS = {"StarPO": (TRAP, "algorithm=starpo"), "StarPO-S": (TRAP, "algorithm=starpo_s")}
HEALTHY = ("healthy", (PLAIN, "algorithm=starpo"))
GROUPS = ("training.samples_per_task=4", "checkpoint.best=null")
QUICK = ("training.tasks_per_step=4", "tasks.train.size=16")


def arguments() -> argparse.Namespace:
    """The command line."""
    options = arms.parser(__doc__, "echo_trap")
    options.add_argument("--steps", type=int, default=50, help="training steps of a run, 256 episodes each")
    options.add_argument("--lr", type=float, default=2.5e-5, help="learning rate of all arms")
    options.add_argument("--picture", type=Path, help="where to draw the curves")
    options.add_argument("--watch", type=Path, nargs="*", default=[], help="folders with further healthy runs")
    chosen = arms.parse(options)
    if chosen.quick:
        chosen.steps = 2
    return chosen


def trained(options: argparse.Namespace) -> dict[str, dict[int, Run]]:
    """The runs, by arm and seed."""
    common = [f"training.lr={options.lr:g}", "evaluation.at_start=false", "evaluation.at_end=false"]
    common += ["evaluation.every=0", f"training.steps={options.steps}", *GROUPS]
    common += QUICK if options.quick else ["training.tasks_per_step=64"]
    chosen = [arms.Arm(name, own, "frozen_lake") for name, own in [*ARMS.items(), HEALTHY]]
    return arms.run_all(options.home, chosen, options.seeds, common)


def fall(rewards: Sequence[float]) -> int | None:
    """The first step at which the running mean is below half of its best so far; steps count from 1."""
    means = [statistics.fmean(rewards[end - WINDOW : end]) for end in range(WINDOW, len(rewards) + 1)]
    best = 0.0
    for step, mean in enumerate(means, WINDOW):
        best = max(best, mean)
        if mean < best / 2:
            return step
    return None


def first_alarm(run: Run) -> tuple[int, str] | None:
    """(step, monitor) of the first alarm, but for that of the reward."""
    alarms = Watch(HealthConfig()).replay(run.metrics())
    told = [(one.step, one.monitor) for one in alarms if one.event == "begins" and one.monitor != "reward"]
    return min(told, default=None)


def judged(arm: str, seed: int | str, run: Run) -> dict[str, Any]:
    """What became of a run, and when the alarm came."""
    rewards = [line["reward/mean"] for line in run.metrics()]
    fell, alarm = fall(rewards), first_alarm(run)
    means = [statistics.fmean(rewards[max(0, end - WINDOW) : end]) for end in range(1, len(rewards) + 1)]
    return {
        "arm": arm,
        "seed": seed,
        "best": max(means),
        "last": means[-1],
        "reward falls": fell,
        "first alarm": None if alarm is None else alarm[0],
        "by": None if alarm is None else alarm[1],
        "in time": None if fell is None else alarm is not None and alarm[0] < fell,
        "false alarm": alarm is not None if fell is None else None,
    }


def counted(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row per arm: how many runs fell, how many of those were warned of in time, and how many others warned of."""
    table = []
    for arm in dict.fromkeys(row["arm"] for row in rows):
        own = [row for row in rows if row["arm"] == arm]
        fell = [row for row in own if row["reward falls"] is not None]
        table.append(
            {
                "arm": arm,
                "best": str(arms.interval([row["best"] for row in own])),
                "last": str(arms.interval([row["last"] for row in own])),
                "reward falls": f"{len(fell)} of {len(own)}",
                "alarm before it": f"{sum(row['in time'] for row in fell)} of {len(fell)}",
                "false alarms": f"{sum(bool(row['false alarm']) for row in own)} of {len(own) - len(fell)}",
            }
        )
    return table


def draw(path: Path, runs: Mapping[str, Mapping[int, Run]], rows: Sequence[Mapping[str, Any]]) -> None:
    """A panel per curve: mean and range over seeds of each arm; ticks below the reward are first alarms."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(CURVES), figsize=(13, 3.2), layout="constrained")
    for axes, (name, title) in zip(panels, CURVES.items(), strict=True):
        for number, arm in enumerate(ARMS):
            lines = [smooth([line.get(name, 0.0) for line in run.metrics()]) for run in runs[arm].values()]
            columns = list(zip(*lines, strict=True))
            steps = range(1, len(columns) + 1)
            axes.fill_between(steps, [min(c) for c in columns], [max(c) for c in columns], alpha=0.2)
            axes.plot(steps, [statistics.fmean(c) for c in columns], label=arm)
            if name == "reward/mean":
                alarms = [row["first alarm"] for row in rows if row["arm"] == arm and row["first alarm"] is not None]
                axes.plot(alarms, [-0.04 * (number + 1)] * len(alarms), "|", color=f"C{number}", markersize=9)
        axes.set(title=title, xlabel="step")
        axes.grid(alpha=0.3)
    panels[2].legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"\ndrawn to {path}")


def smooth(values: Sequence[float]) -> list[float]:
    """Running means of the last steps."""
    return [statistics.fmean(values[max(0, end - WINDOW) : end]) for end in range(1, len(values) + 1)]


def main() -> None:
    options = arguments()
    runs = trained(options)
    rows = [judged(arm, seed, run) for arm, own in runs.items() for seed, run in own.items()]
    for folder in options.watch:
        found = [path for path in sorted(folder.iterdir()) if Run.is_run(path)]
        rows += [judged(f"healthy, {folder.name}", path.name, Run.open(path)) for path in found]
    table = counted(rows)
    report.show(f"Rewards are running means over {WINDOW} steps; seeds {options.seeds}, 95 % t intervals", table)
    report.show("Runs", rows)
    if options.picture is not None:
        draw(options.picture, runs, rows)
    report.save(options.out, options, {"arms": table, "runs": rows})


if __name__ == "__main__":
    main()
