"""Tries to break runs, tools and files, and counts what breaks (`make torture`).

    python scripts/torture.py
    python scripts/torture.py --parts files,soak --share 0.1

Parts: kills (100 runs are killed once or twice, and resumed), crash points (a short run is killed, or fails, at every
call that changes a file, and is resumed), workers (20 kills of processes of runs on Ray and, for root, of machines),
threads and processes (1,000 hostile calls each), files (2,000 corrupted files), soak (500 steps with hangs). `--share`
tries less of everything. Every fault is printed; the exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "laws"))  # what plays rollouts of bad tools
from attacks.crash_points import walk_crash_points
from attacks.files import corrupt_files
from attacks.kills import kill_runs
from attacks.outcome import HEADER, Outcome, Plan
from attacks.soak import soak
from attacks.tools import call_in_processes, call_in_threads
from attacks.workers import kill_workers

PARTS: dict[str, Callable[[Plan], Outcome]] = {
    "kills": kill_runs,
    "crash points": walk_crash_points,
    "workers": kill_workers,
    "threads": call_in_threads,
    "processes": call_in_processes,
    "files": corrupt_files,
    "soak": soak,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--parts", default=",".join(PARTS), help=f"parts to run, of {', '.join(PARTS)}")
    parser.add_argument("--share", type=float, default=1.0, help="how much of everything to try, from 0 to 1")
    parser.add_argument("--seed", type=int, default=0, help="what is drawn")
    parser.add_argument("--workers", type=int, default=2, help="killed runs at once")
    options = parser.parse_args()
    if unknown := [name for name in options.parts.split(",") if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; the parts are {', '.join(PARTS)}")
    # A shell starts background jobs with SIGINT ignored, and the runs to be interrupted would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    outcomes = []
    for name in options.parts.split(","):
        with tempfile.TemporaryDirectory(prefix=f"torture-{name}-") as folder:
            begun = time.perf_counter()
            outcome = PARTS[name](Plan(Path(folder), options.seed, options.share, options.workers))
            outcome.seconds = time.perf_counter() - begun
            outcome.judge_reach()
        tried, reached = outcome.tried.total(), outcome.reached.total()
        print(f"{name}: {tried} tried, {reached} reached, {len(outcome.faults)} faults", file=sys.stderr)
        print("".join(f"  {fault}\n" for fault in outcome.faults), end="", file=sys.stderr)
        outcomes.append(outcome)
    print("\n".join([HEADER, *(outcome.row() for outcome in outcomes)]))
    print("".join(f"\n{outcome.table}\n" for outcome in outcomes if outcome.table), end="")
    return int(any(outcome.faults for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
