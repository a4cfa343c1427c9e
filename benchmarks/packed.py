"""What does it save the controller that episodes are packed where they were played, and what does packing cost?

    python benchmarks/packed.py

An episode of each load of benchmarks/controller.py, ordinary and packed (agent_r1_core/distributed/packed.py): packing
it, in the worker; unpickling what was reported and pickling it for the learner, in the controller; unpacking it, in the
learner and in the writer. Medians of processor time, without the garbage collector; and kilobytes on the way and in the
controller's memory.
"""

from __future__ import annotations

import argparse
import gc
import os
import pickle
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import report

for name, value in report.CALM.items():
    os.environ.setdefault(name, value)

from controller import LOADS  # noqa: E402
from simulated_step import dumps  # noqa: E402

from agent_r1_core.distributed.packed import packed  # noqa: E402
from agent_r1_core.trajectory import Trajectory  # noqa: E402


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "packed")
    options.add_argument("--loads", nargs="+", default=list(LOADS), choices=list(LOADS))
    options.add_argument("--episodes", type=int, default=1024)
    chosen = options.parse_args()
    if chosen.quick:
        chosen.episodes = 64
    return chosen


def measured(work: Callable[[Any], Any], things: list[Any]) -> tuple[float, list[Any]]:
    """Milliseconds of processor time for one, the median of five runs; and what came out."""
    found, made = [], []
    for _ in range(5):
        begun = time.thread_time()
        made = [work(one) for one in things]
        found.append(1000 * (time.thread_time() - begun) / len(things))
    return statistics.median(found), made


def row(load: str, form: str, episodes: list[Trajectory]) -> dict[str, Any]:
    """What an episode costs in one form."""
    packing, own = measured(packed, episodes) if form == "packed" else (0.0, episodes)
    sent = [pickle.dumps(one, protocol=5) for one in own]
    tracemalloc.start()
    kept = [pickle.loads(one) for one in sent]
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del kept
    unpickling, received = measured(pickle.loads, sent)
    pickling, _ = measured(lambda one: dumps(one, protocol=5), received)
    unpacking, _ = measured(lambda one: pickle.loads(one).segments, sent)
    return {
        "load": load,
        "form": form,
        "pack": packing,
        "unpickle": unpickling,
        "to learner": pickling,
        "unpack": unpacking - unpickling,
        "KB sent": sum(map(len, sent)) / 1000 / len(sent),
        "KB in memory": memory / 1000 / len(sent),
    }


def main() -> None:
    options = arguments()
    gc.disable()
    rng, table = random.Random(0), []
    for load in options.loads:
        episodes = [LOADS[load].trajectory(rng) for _ in range(options.episodes)]
        table += [row(load, form, episodes) for form in ("ordinary", "packed")]
    report.show("Milliseconds of processor time, kilobytes, for an episode", table)
    report.save(options.out, options, {"rows": table})


if __name__ == "__main__":
    main()
