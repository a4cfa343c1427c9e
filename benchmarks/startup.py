"""How long does it take until something happens: an import, a command, the first training step?

    python benchmarks/startup.py

Every row is the median of fresh processes, and what Python, torch and transformers take by themselves.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import report

COMMAND = "from agent_r1_cli.main import main; main()"
SHORT = [
    "training.steps=1",
    "evaluation.at_start=false",
    "evaluation.at_end=false",
    "evaluation.every=0",
    "tasks.eval=null",
]
CASES: dict[str, list[str]] = {
    "python alone": ["-c", "pass"],
    "import torch": ["-c", "import torch"],
    "import torch, transformers' Qwen2": ["-c", "import torch; from transformers import Qwen2ForCausalLM"],
    "import agent_r1_core": ["-c", "import agent_r1_core"],
    "agent-r1 --help": ["-c", COMMAND, "--help"],
    "agent-r1 plugins list": ["-c", COMMAND, "plugins", "list"],
    "agent-r1 train --dry-run": ["-c", COMMAND, "train", "--dry-run"],
    "agent-r1 train, one step of 16 episodes": [
        *("-c", COMMAND, "train", *SHORT, "training.tasks_per_step=2", "run.dir={folder}"),
    ],
}


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "startup")
    options.add_argument("--repeats", type=int, default=5, help="processes per row")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.repeats = 1
    return chosen


def seconds_of(command: Sequence[str]) -> float:
    """Wall seconds of a process.

    Raises:
        SystemExit: it failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = [word.replace("{folder}", folder) for word in command]
        begun = time.perf_counter()
        done = subprocess.run(
            [sys.executable, *words], env={**os.environ, **report.CALM}, capture_output=True, text=True, check=False
        )
        seconds = time.perf_counter() - begun
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return seconds


def main() -> None:
    options = arguments()
    cases = {name: CASES[name] for name in ("python alone", "agent-r1 --help")} if options.quick else CASES
    found: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(options.repeats):
        for name, command in cases.items():
            found[name].append(seconds_of(command))
    rows = [
        {"what": name, "median s": statistics.median(times), "least s": min(times), "most s": max(times)}
        for name, times in found.items()
    ]
    report.show(f"Start-up, {options.repeats} processes each", rows)
    report.save(options.out, options, {"startup": rows})


if __name__ == "__main__":
    main()
