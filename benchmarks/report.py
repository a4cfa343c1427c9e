"""What all benchmarks share: tables, JSON, facts about the machine, fresh processes, line fits."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent
CALM = {
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Environment of measured processes: one thread each, which waits without spinning."""


def keep_calm() -> None:
    """Set the environment of this process, before it imports torch."""
    for name, value in CALM.items():
        os.environ.setdefault(name, value)


def parser(document: str | None, name: str) -> argparse.ArgumentParser:
    """An argument parser with the common options; its help is the script's docstring."""
    options = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=HOME / "results" / f"{name}.json", help="the JSON file to write")
    options.add_argument("--quick", action="store_true", help="small sizes and few repetitions, to see that it runs")
    return options


def show(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as a table; columns are the keys of the first row."""
    print(f"\n{title}\n")
    if not rows:
        print("(nothing was measured)")
        return
    cells = [list(rows[0]), *([_text(row.get(column)) for column in rows[0]] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    print("\n".join(lines), flush=True)


def _text(value: Any) -> str:
    """A cell; numbers have about three significant digits."""
    if not isinstance(value, float):
        return "" if value is None else str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}"


def save(path: Path, options: argparse.Namespace, tables: Mapping[str, Any]) -> None:
    """Write tables, options and the machine as JSON."""
    chosen = {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"options": chosen, "machine": machine(), **tables}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"\nwritten to {path}")


def machine() -> dict[str, Any]:
    """Processor, cores that this process may use, Python and torch."""
    import torch

    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", info.read_text(encoding="utf-8")) if info.is_file() else None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    facts = {"processor": found[1] if found else platform.machine(), "cores": cores}
    facts |= {"python": platform.python_version(), "torch": torch.__version__}
    if torch.cuda.is_available():
        facts["gpu"] = torch.cuda.get_device_name(0)
    return facts


def fresh(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a fresh process and return the JSON object in its last line of output.

    Raises:
        SystemExit: the process failed; the text has its last lines.
    """
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **CALM, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{tail}")
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def warm(seconds: Sequence[float], first: int = 2) -> list[float]:
    """The measurements after the first steps, which warm up caches and allocators."""
    return list(seconds[first:]) or list(seconds)


def line_through(points: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Least squares through positive points: `slope`, `intercept`, `r2`, the largest relative distance of a point, and
    `exponent`, the slope of the logarithms: 1 is linear growth, 2 quadratic."""
    xs, ys = zip(*points, strict=True)
    slope, intercept = statistics.linear_regression(xs, ys)
    worst = max(abs(y - intercept - slope * x) / y for x, y in points)
    exponent = statistics.linear_regression([*map(math.log, xs)], [*map(math.log, ys)]).slope
    r2 = statistics.correlation(xs, ys) ** 2
    return {"slope": slope, "intercept": intercept, "r2": r2, "exponent": exponent, "farthest point %": 100 * worst}
