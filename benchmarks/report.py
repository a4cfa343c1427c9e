"""What all benchmarks share: options, tables, JSON, facts about the machine, fresh processes, times."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent
CALM = {
    **{"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"},
    **{"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
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


def chosen(options: argparse.ArgumentParser, **quick: Any) -> argparse.Namespace:
    """The options of the command line; `quick` are those of the quick form."""
    found = options.parse_args()
    vars(found).update(quick if found.quick else {})
    return found


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
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"options": vars(options), "machine": machine(), **tables}
    path.write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")
    print(f"\nwritten to {path}")


def machine() -> dict[str, Any]:
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
    calm = {**os.environ, **CALM, **(environment or {})}
    done = subprocess.run([str(part) for part in command], env=calm, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{tail}")
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def afresh(work: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
    """What a function of a file of this folder returns in a fresh process; both ways as JSON."""
    module = Path(work.__code__.co_filename).stem
    called = f"{module}.{work.__name__}(*json.loads(sys.argv[1]))"
    code = f"import json, sys, {module}; print(json.dumps({called}))"
    paths = os.pathsep.join(filter(None, (str(HOME), os.environ.get("PYTHONPATH"))))  # also for what it starts itself
    return fresh([sys.executable, "-c", code, json.dumps(given, default=str)], {"PYTHONPATH": paths})


@contextmanager
def serving(*command: str | Path, **how: Any) -> Iterator[tuple[int, str]]:
    """A command of agent-r1 that serves for as long as the context lasts: its process, and the first line that it says,
    which has its address; `how` are options of Popen."""
    words = [sys.executable, "-m", "agent_r1_cli", *map(str, command)]
    environment = {**os.environ, **CALM}
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment, text=True, **how) as process:
        assert process.stdout is not None
        try:
            if not (line := process.stdout.readline().strip()):
                raise SystemExit(f"{' '.join(words)} did not start")
            yield process.pid, line
        finally:
            process.terminate()


def processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait(device: str) -> None:
    """Wait for the GPU."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def seconds_of(
    work: Callable[[], object], repeats: int, device: str = "cpu", clock: Callable[[], float] = time.perf_counter
) -> float:
    """Median over `repeats` calls after a first one."""
    seconds = []
    for _ in range(repeats + 1):
        wait(device)
        begun = clock()
        work()
        wait(device)
        seconds.append(clock() - begun)
    return statistics.median(seconds[1:])


def product_rate(size: int, repeats: int, device: str = "cpu", dtype: Any = None, **how: Any) -> float:
    """Operations a second in products of square matrices; `how` goes to `seconds_of`."""
    import torch

    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return 2 * size**3 / seconds_of(lambda: left @ right, repeats, device, **how)


def warm(seconds: Sequence[float], first: int = 2) -> list[float]:
    """The measurements after the first steps, which warm up caches and allocators."""
    return list(seconds[first:]) or list(seconds)
