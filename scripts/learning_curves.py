"""Draws learning curves: every recipe with every seed, from real runs.

    python scripts/learning_curves.py --home runs/curves --out docs/learning_curves.png
    python scripts/learning_curves.py --panel "calculator=runs/a,runs/b" --panel "search=runs/c" --out curves.png

Trains the runs that are missing under --home, one after the other, and only reads finished ones; with --panel it trains
none and draws those that are named. The picture shows the exact match of sampled training episodes (line: mean over
seeds, band: range) and of greedy evaluations on unseen tasks (dots).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from agent_r1_core import train
from agent_r1_core.runs.run import Run

RECIPES = {"default": "GRPO", "ppo": "PPO", "reinforce_pp": "REINFORCE++"}


def finished_run(home: Path, recipe: str, seed: int) -> Run:
    """The run of a recipe and seed, trained now if it is missing."""
    name = f"{recipe}-seed{seed}"
    if not (home / name / "model").is_dir():
        print(f"training {name}", flush=True)
        train(recipe, [f"seed={seed}", f"run.dir={home}", f"run.name={name}", "trackers=[]"], force=True)
    return Run.open(home / name)


def curve(run: Run) -> tuple[list[int], list[float]]:
    """Steps and the mean exact match of their sampled episodes."""
    lines = run.metrics()
    return [line["step"] for line in lines], [line["reward/exact_match"] for line in lines]


def evaluations(run: Run) -> list[tuple[int, float, float, float]]:
    """(step, exact match, lower and upper end of its 95 % interval) of the evaluations during training."""
    results = [result for result in run.evaluations().values() if result["step"] is not None]
    scores = [(result["step"], result["metrics"]["exact_match"]) for result in results]
    return [(step, score["mean"], score["low"], score["high"]) for step, score in scores]


def report(title: str, run: Run) -> None:
    """Print one line of the table that accompanies the picture."""
    scores = evaluations(run)
    minutes = sum(line["time/step"] for line in run.metrics()) / 60
    first, last = scores[0], scores[-1]
    print(
        f"{title:12} seed {run.config()['seed']}  before {first[1]:.3f} [{first[2]:.3f}, {first[3]:.3f}]  "
        f"after {last[0]} steps {last[1]:.3f} [{last[2]:.3f}, {last[3]:.3f}]  {minutes:.1f} minutes"
    )


def draw(axes: Any, title: str, runs: list[Run]) -> None:
    """Draw one recipe's panel."""
    curves = [curve(run) for run in runs]
    length = min(len(steps) for steps, _ in curves)
    steps = curves[0][0][:length]
    columns = list(zip(*(values[:length] for _, values in curves), strict=True))
    axes.fill_between(steps, [min(column) for column in columns], [max(column) for column in columns], alpha=0.25)
    axes.plot(steps, [sum(column) / len(column) for column in columns], label="training, sampled")
    for run in runs:
        points = evaluations(run)
        axes.plot([point[0] for point in points], [point[1] for point in points], "o", color="black", markersize=3.5)
    axes.plot([], [], "o", color="black", markersize=3.5, label="unseen tasks, greedy")
    axes.set(title=title, xlabel="step", ylim=(0, 1.02))
    axes.grid(alpha=0.3)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--home", type=Path, default=Path("runs/curves"), help="the folder of the runs")
    parser.add_argument("--out", type=Path, default=Path("docs/learning_curves.png"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--panel", action="append", metavar="TITLE=RUN,RUN", help="runs of a recipe to draw; repeatable"
    )
    options = parser.parse_args()

    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    if options.panel:
        named = (text.partition("=") for text in options.panel)
        runs = {title: [Run.open(Path(path)) for path in paths.split(",")] for title, _, paths in named}
    else:
        runs = {
            title: [finished_run(options.home, recipe, seed) for seed in options.seeds]
            for recipe, title in RECIPES.items()
        }
    figure, panels = pyplot.subplots(1, len(runs), figsize=(11, 3.4), sharey=True, layout="constrained", squeeze=False)
    for axes, (title, of_title) in zip(panels[0], runs.items(), strict=True):
        draw(axes, title, of_title)
        for run in of_title:
            report(title, run)
    panels[0][0].set_ylabel("exact match")
    panels[0][0].legend(loc="lower right", fontsize=8)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out, dpi=110)


if __name__ == "__main__":
    main()
