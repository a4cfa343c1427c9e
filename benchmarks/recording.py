"""What does a run pay for what it records for people to read, and for a page that shows it meanwhile?

    python benchmarks/recording.py
    python benchmarks/recording.py --recipes ppo --steps 8

Trains each recipe with everything of the recipe's section `recording`, with nothing of it (`recording.learner=false`,
`dropped=false`, `evaluation_episodes=0`), and, where there is a Chromium, with everything and a browser on this machine
that shows the run from its first step on; in fresh processes, in turns, with an evaluation at the end. Per run: the
median processor time of a step, in which other programs matter little (those of viewer and browser are not in it), and
its time; the first step and the last, which evaluates, are left out; the time of the evaluation; KB of a step's file
for an episode, and of the evaluation's. Then medians, and the ratios of neighbouring runs: of processor time to the run
that records nothing, of time to the run that records the same and is not watched.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import report
from browser import BROWSERS

report.keep_calm()

ARMS = {
    "everything": (),
    "nothing": ("recording.learner=false", "recording.dropped=false", "recording.evaluation_episodes=0"),
    "everything, watched": (),
}
WATCHED = "everything, watched"
CHROMIUM = [path for name in BROWSERS if (path := shutil.which(name))][:1]


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "recording")
    options.add_argument("--recipes", nargs="+", default=["default", "ppo"])
    options.add_argument("--steps", type=int, default=5, help="steps of a run")
    options.add_argument("--questions", type=int, default=200, help="of the evaluation")
    options.add_argument("--repeats", type=int, default=4, help="runs of each arm")
    options.add_argument("--row", nargs=2, metavar=("RECIPE", "ARM"), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.quick:
        chosen.recipes, chosen.steps, chosen.questions, chosen.repeats = ["default"], 3, 2, 1
    return chosen


def measured(recipe: str, arm: str, options: argparse.Namespace) -> dict[str, float]:
    """One run."""
    from agent_r1_core import train
    from agent_r1_core.evaluation.listener import Silence

    with tempfile.TemporaryDirectory() as folder, ExitStack() as browser:

        class Clock(Silence):
            """The processor time of this process after each step; the first one opens the page."""

            def __init__(self) -> None:
                self.told: list[float] = []

            def step(self, step: int, metrics: Mapping[str, float]) -> None:
                if step == 1 and arm == WATCHED:
                    browser.enter_context(watching(Path(folder) / "runs"))
                self.told.append(time.process_time())

        clock = Clock()
        small = ("training.tasks_per_step=2", "training.samples_per_task=2") if options.quick else ()
        run = train(
            recipe,
            [
                *(f"run.dir={folder}/runs", "threads=1", "model.dtype=float32", "trackers=[]", *small, *ARMS[arm]),
                *(f"training.steps={options.steps}", f"evaluation.size={options.questions}", "run.name=measured"),
                *("evaluation.every=0", "evaluation.at_start=false"),
            ],
            listener=clock,
        )
        lines = run.metrics()
        steps = sum(run.trajectory_file(line["step"]).stat().st_size for line in lines)
        kept = list(run.path.glob("evaluations/*.parquet"))
        return {
            "step cpu s": statistics.median(after - before for before, after in pairwise(clock.told[:-1])),
            "step s": statistics.median(line["time/step"] for line in lines[1:-1]),
            "evaluation s": lines[-1]["time/evaluation"],
            "KB/episode": steps / 1000 / sum(line["rollout/episodes"] for line in lines),
            "KB/evaluated episode": sum(file.stat().st_size for file in kept) / 1000 / options.questions,
        }


@contextmanager
def watching(runs: Path) -> Iterator[None]:
    """A viewer and a browser that shows its page of the run, for as long as the context lasts."""
    command = [sys.executable, "-c", "from agent_r1_cli.main import main; main()", "view", str(runs), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as viewer:
        assert viewer.stdout is not None
        page = viewer.stdout.readline().split()[-1].partition("#")[0] + "#/runs/measured"
        hidden = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
        with subprocess.Popen(
            [*CHROMIUM, *hidden, f"--user-data-dir={runs.parent / 'browser'}", page], stderr=subprocess.DEVNULL
        ) as browser:
            yield
            if browser.poll() is not None or viewer.poll() is not None:
                raise SystemExit("the browser or the viewer ended before the training did")
            browser.terminate()
        viewer.terminate()


def table(recipe: str, runs: dict[str, list[dict[str, float]]]) -> list[dict[str, Any]]:
    """Medians by arm, and of the ratios."""
    rows = []
    for arm, own in runs.items():
        medians = {name: statistics.median(row[name] for row in own) for name in own[0]}
        other, of = ("everything", "step s") if arm == WATCHED else ("nothing", "step cpu s")
        ratios = [row[of] / base[of] for row, base in zip(own, runs[other], strict=True)]
        spread = {"ratio": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)}
        rows.append({"recipe": recipe, "recorded": arm, **medians, "ratio of": of, "to": other, **spread})
    return rows


def turns(repeats: int) -> list[str]:
    """The arms in the order of their runs: now the one first, now the other."""
    names: Sequence[str] = [name for name in ARMS if name != WATCHED or CHROMIUM]
    return [name for number in range(repeats) for name in (names if number % 2 else names[::-1])]


def main() -> None:
    options = arguments()
    if options.row:
        recipe, arm = options.row
        print(json.dumps(measured(recipe, arm, options)))
        return
    rows: list[dict[str, Any]] = []
    for recipe in options.recipes:
        runs: dict[str, list[dict[str, float]]] = {arm: [] for arm in turns(1)}
        for arm in turns(options.repeats):
            command = [sys.executable, __file__, "--row", recipe, arm, "--steps", str(options.steps)]
            command += ["--questions", str(options.questions), *(["--quick"] if options.quick else [])]
            runs[arm].append(report.fresh(command))
            print(recipe, arm, f"{runs[arm][-1]['step cpu s']:.3g} s", flush=True)
        rows += table(recipe, runs)
    report.show(f"{options.steps} steps, {options.repeats} runs of each", rows)
    report.save(options.out, options, {"recording": rows})


if __name__ == "__main__":
    main()
