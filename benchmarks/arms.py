"""What all experiments share: arms x seeds as runs of the installed package, and what their differences are worth.

An arm is a recipe with overrides. Every run is a fresh process with one thread, and runs follow one another. A
finished run is only read, so that an experiment that was stopped goes on where it was; after a change of the code,
choose another `--home`.

Intervals are of Student's t over seeds, 95 %, of means and of differences. A difference is taken seed by seed: runs
with the same seed see the same tasks in the same order. There is none for a single seed, and it is a point where all
seeds agree: five seeds that all reach 1.0 do not prove that a sixth would.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import report

from agent_r1_core.runs.run import Run

PROGRAM = "from agent_r1_cli.main import main; main()"
COMMON = ("trackers=[]", "threads=1")


@dataclass(frozen=True)
class Arm:
    """A recipe with what an experiment changes of it."""

    name: str
    overrides: tuple[str, ...] = ()
    recipe: str = "default"


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its 95 % interval."""

    mean: float
    low: float | None
    """None with a single seed."""
    high: float | None
    n: int
    """Seeds."""

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + ("" if self.low is None else f" [{self.low:.3f}, {self.high:.3f}]")


Scores = dict[str, dict[int, float]]
"""By arm and seed."""


def parser(document: str | None, name: str, seeds: int = 5) -> argparse.ArgumentParser:
    """The options of an experiment, beside those of every benchmark."""
    options = report.parser(document, name)
    options.add_argument("--home", type=Path, help="the folder of the runs; default: beside --out, without .json")
    options.add_argument("--seeds", type=int, nargs="+", default=list(range(seeds)))
    return options


def parse(options: argparse.ArgumentParser) -> argparse.Namespace:
    """The options, with the folder of the runs; the quick form has one seed."""
    chosen = options.parse_args()
    chosen.home = chosen.home or chosen.out.with_suffix("")
    chosen.seeds = chosen.seeds[:1] if chosen.quick else chosen.seeds
    return chosen


def run_all(home: Path, arms: Sequence[Arm], seeds: Sequence[int], common: Sequence[str]) -> dict[str, dict[int, Run]]:
    """The runs of all arms, by arm and seed; seed by seed, so that a stopped experiment has whole comparisons."""
    runs: dict[str, dict[int, Run]] = {arm.name: {} for arm in arms}
    for seed in seeds:
        for arm in arms:
            runs[arm.name][seed] = trained(home, arm, seed, common)
    return runs


def trained(home: Path, arm: Arm, seed: int, common: Sequence[str] = ()) -> Run:
    """The run of an arm and a seed, trained now unless it is finished.

    Raises:
        SystemExit: the training failed, or the folder holds a run with other settings.
    """
    name = f"{''.join(letter if letter.isalnum() else '-' for letter in arm.name)}-seed{seed}"
    settings = [arm.recipe, *COMMON, *common, *arm.overrides, f"seed={seed}"]
    known, text = home / f"{name}.json", json.dumps(settings)
    if (home / name / "model").is_dir():
        if not known.is_file() or known.read_text(encoding="utf-8") != text:
            raise SystemExit(f"{home / name} was trained with other settings; delete it, or choose another --home")
        return Run.open(home / name)
    home.mkdir(parents=True, exist_ok=True)
    known.write_text(text, encoding="utf-8")
    place, begun = [f"run.dir={home.absolute()}", f"run.name={name}"], time.perf_counter()
    with (home / f"{name}.log").open("w", encoding="utf-8") as log:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, "train", *settings, *place, "--force"],
            env={**os.environ, **report.CALM},
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        tail = "\n".join(Path(log.name).read_text(encoding="utf-8").splitlines()[-15:])
        raise SystemExit(f"{name} ended with {done.returncode}; its log {log.name} ends with\n{tail}")
    print(f"{name}: {time.perf_counter() - begun:.0f} s", flush=True)
    return Run.open(home / name)


def scores(runs: Mapping[str, Mapping[int, Run]], score: Callable[[Run], float]) -> Scores:
    """A number of every run."""
    return {arm: {seed: score(run) for seed, run in own.items()} for arm, own in runs.items()}


def evaluated(run: Run, name: str = "exact_match") -> list[tuple[int, float]]:
    """(step, mean) of the evaluations during training, by step."""
    results = [result for result in run.evaluations().values() if result["step"] is not None]
    return sorted((result["step"], result["metrics"][name]["mean"]) for result in results)


def last(run: Run, name: str = "exact_match") -> float:
    """The score of the last evaluation."""
    return evaluated(run, name)[-1][1]


def area(run: Run, name: str = "exact_match") -> float:
    """Mean height of the curve of evaluations over the steps, by the trapezoid rule: how high, and how soon."""
    points = evaluated(run, name)
    heights = ((b - a) * (low + high) / 2 for (a, low), (b, high) in itertools.pairwise(points))
    return sum(heights) / (points[-1][0] - points[0][0])


def interval(values: Sequence[float]) -> Interval:
    """Mean and t interval: mean -+ t(n - 1) s / sqrt(n)."""
    mean, n = statistics.fmean(values), len(values)
    if n == 1:
        return Interval(mean, None, None, n)
    half = t_quantile(n - 1) * statistics.stdev(values) / math.sqrt(n)
    return Interval(mean, mean - half, mean + half, n)


def difference(of: Mapping[int, float], to: Mapping[int, float]) -> Interval:
    """`of` minus `to`, seed by seed.

    Raises:
        ValueError: they have no seed in common.
    """
    seeds = sorted(of.keys() & to.keys())
    if not seeds:
        raise ValueError("arms without a common seed have no difference; run both with the same seeds")
    return interval([of[seed] - to[seed] for seed in seeds])


def t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, by bisection; with x = sqrt(freedom) tan(a) its distribution is an integral
    of cos(a)^(freedom - 1), here by Simpson's rule."""

    def integral(end: float, pieces: int = 1000) -> float:
        def at(place: int) -> float:
            return math.cos(end * place / pieces) ** (freedom - 1)

        inner = 4 * sum(map(at, range(1, pieces, 2))) + 2 * sum(map(at, range(2, pieces, 2)))
        return (at(0) + inner + at(pieces)) * end / pieces / 3

    low, high, wanted = 0.0, math.pi / 2, 0.95 * integral(math.pi / 2)
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if integral(middle) < wanted else (low, middle)
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def table(columns: Mapping[str, Scores]) -> list[dict[str, Any]]:
    """A row per arm: mean and interval of every score."""
    arms = list(next(iter(columns.values())))
    return [
        {"arm": arm, "seeds": len(next(iter(columns.values()))[arm])}
        | {name: str(interval(list(own[arm].values()))) for name, own in columns.items()}
        for arm in arms
    ]


def differences(columns: Mapping[str, Scores], pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """A row per pair (arm, compared with): the difference of every score, paired by seed."""
    return [
        {"arm": of, "minus": to} | {name: str(difference(own[of], own[to])) for name, own in columns.items()}
        for of, to in pairs
    ]


def rows(columns: Mapping[str, Scores]) -> Iterator[dict[str, Any]]:
    """Every run's own numbers, for the JSON beside the tables."""
    first = next(iter(columns.values()))
    for arm, own in first.items():
        for seed in own:
            yield {"arm": arm, "seed": seed} | {name: scores[arm][seed] for name, scores in columns.items()}
