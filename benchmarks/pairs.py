"""How much processor time does a training step take with one setting, or version, compared with another?

    python benchmarks/pairs.py --first kernels=false --second kernels=true
    python benchmarks/pairs.py --first-python PATH --first --second      # an environment with an older version

Two trainings of a recipe take steps in turn, each stopped while the other computes, in alternating order. Prints the
median of the ratios of a pair, of processor time and of time, with 95 % intervals by bootstrap. Processor time can be
compared on a machine that others use, too, as far as they do not fill its caches.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

import report

WARM = 2
"""Steps that are not measured."""
STILL = ("evaluation.every=0", "evaluation.at_start=false", "evaluation.at_end=false", "checkpoint.every=1000")
"""Settings of a run in which nothing but steps happens."""


def training_parser(document: str | None, name: str, steps: int) -> argparse.ArgumentParser:
    parser = report.parser(document, name)
    parser.add_argument("--recipe", default="default")
    parser.add_argument("--settings", nargs="*", default=["seed=0", "threads=1", "model.dtype=float32"])
    parser.add_argument("--steps", type=int, default=steps, help="to measure")
    return parser


class Training:
    """A run in a process that computes only while it is wanted."""

    def __init__(self, name: str, folder: Path, arguments: Sequence[str], python: str = sys.executable) -> None:
        self.name = name
        self._metrics, self._log = folder / name / "metrics.jsonl", folder / f"{name}.log"
        settings = [*arguments, f"run.dir={folder}", f"run.name={name}"]
        command = [python, "-P", "-m", "agent_r1_cli", "train", "--trust", *settings]
        calm = {**os.environ, **report.CALM}
        with self._log.open("w") as log:
            self._process = subprocess.Popen(command, env=calm, stdout=log, stderr=log, start_new_session=True)
        self.signal(signal.SIGSTOP)

    def signal(self, number: int) -> None:
        os.killpg(self._process.pid, number)

    def step(self) -> tuple[float, float]:
        """Seconds of processor time, and seconds, until one more step is complete."""
        wanted, used, begun = self._steps() + 1, self._used(), time.perf_counter()
        self.signal(signal.SIGCONT)
        while self._steps() < wanted:
            if self._process.poll() is not None:
                raise SystemExit(f"{self.name} has ended:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.002)
        self.signal(signal.SIGSTOP)
        return self._used() - used, time.perf_counter() - begun

    def _steps(self) -> int:
        return self._metrics.read_bytes().count(b"\n") if self._metrics.exists() else 0

    def _used(self) -> float:
        return report.processor_seconds(self._process.pid)

    def finish(self) -> None:
        self.signal(signal.SIGCONT)
        self._process.wait(timeout=600)

    def close(self) -> None:
        if self._process.poll() is None:
            self.signal(signal.SIGKILL)
        self._process.wait()


def interval(ratios: Sequence[float]) -> dict[str, float]:
    """The median, and a 95 % interval by bootstrap."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(10_000))
    return {"median ratio": statistics.median(ratios), "from": medians[250], "to": medians[9750]}


def main() -> None:
    parser = training_parser(__doc__, "pairs", 20)
    parser.add_argument("--first-python", default=sys.executable, help="Python of an environment")
    parser.add_argument("--first", nargs="*", default=["kernels=false"], help="settings of the one")
    parser.add_argument("--second", nargs="*", default=["kernels=true"], help="settings of the other")
    options = report.chosen(parser, steps=2)
    settings = [options.recipe, *options.settings, f"training.steps={WARM + options.steps + 1}", *STILL]
    measured: list[dict[str, tuple[float, float]]] = []
    with TemporaryDirectory() as folder, ExitStack() as stack:
        both = [
            stack.enter_context(closing(Training(name, Path(folder), [*settings, *vars(options)[name]], python)))
            for name, python in {"first": options.first_python, "second": sys.executable}.items()
        ]
        for number in range(WARM + options.steps):
            measured.append({run.name: run.step() for run in (both if number % 2 else both[::-1])})
    rows = []
    for place, kind in enumerate(("processor time", "time")):
        seconds = [{name: found[place] for name, found in pair.items()} for pair in measured[WARM:]]
        medians = {f"{name}, s": statistics.median(pair[name] for pair in seconds) for name in ("first", "second")}
        rows.append({"of": kind, **medians, **interval([pair["second"] / pair["first"] for pair in seconds])})
    report.show("A step of the second training, compared with the first", rows)
    report.save(options.out, options, {"rows": rows, "pairs": measured})


if __name__ == "__main__":
    main()
