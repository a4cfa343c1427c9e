"""What would the controller save if trajectories held their numbers as arrays, and not as lists?

    python benchmarks/packed.py

The parts of benchmarks/controller.py that touch every token, with lists as they are and with numpy arrays (int32 ids,
int8 masks, float32 log-probs and advantages) in their place: pickling and unpickling an episode, the file's columns of
ids, masks, log-probs and advantages, and memory. Medians of processor time, without the garbage collector.
"""

from __future__ import annotations

import argparse
import gc
import os
import pickle
import random
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import report

for name, value in report.CALM.items():
    os.environ.setdefault(name, value)

import numpy  # noqa: E402
from controller import LOADS  # noqa: E402
from simulated_step import dumps  # noqa: E402

from agent_r1_core.trajectory import Segment, Trajectory  # noqa: E402

COLUMNS = {"ids": "int32", "mask": "int8", "logprobs": "float32", "advantages": "float32"}


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "packed")
    options.add_argument("--loads", nargs="+", default=list(LOADS), choices=list(LOADS))
    options.add_argument("--episodes", type=int, default=1024)
    chosen = options.parse_args()
    if chosen.quick:
        chosen.episodes = 64
    return chosen


def packed_segment(segment: Segment) -> Any:
    """The same segment with arrays."""
    numbers: dict[str, Any] = {
        name: numpy.array(getattr(segment, name), COLUMNS[name]) for name in ("ids", "mask", "logprobs")
    }
    return replace(segment, **numbers)


def packed(trajectory: Trajectory) -> Trajectory:
    """The same trajectory with arrays."""
    return replace(trajectory, segments=[packed_segment(one) for one in trajectory.segments])


def milliseconds(work: Callable[[], Any], episodes: int) -> float:
    """Processor time of an episode's share; the median of five."""
    found = []
    for _ in range(5):
        begun = time.thread_time()
        work()
        found.append(1000 * (time.thread_time() - begun) / episodes)
    return statistics.median(found)


def write(columns: dict[str, Sequence[Any]], folder: Path) -> None:
    """Write the columns: lists of lists, or lists of arrays."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = {}
    for name, values in columns.items():
        if isinstance(values[0], list):
            made[name] = pa.array(values, pa.list_(getattr(pa, COLUMNS[name])()))
        else:
            offsets = numpy.cumsum([0, *map(len, values)], dtype="int32")
            made[name] = pa.ListArray.from_arrays(offsets, pa.array(numpy.concatenate(values)))
    pq.write_table(pa.table(made), folder / "columns.parquet", compression="zstd", write_page_checksum=True)


def rows(load: str, count: int) -> list[dict[str, Any]]:
    """A row with lists and one with arrays."""
    rng = random.Random(0)
    lists = [LOADS[load].trajectory(rng) for _ in range(count)]
    table = []
    for kind, own in (("lists", lists), ("arrays", [packed(one) for one in lists])):
        sent = [pickle.dumps(one, protocol=5) for one in own]
        columns: dict[str, Any] = {
            name: [getattr(one.segments[0], name) for one in own] for name in ("ids", "mask", "logprobs")
        }
        columns["advantages"] = columns["logprobs"]
        tracemalloc.start()
        received = [pickle.loads(one) for one in sent]
        memory = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        del received
        with tempfile.TemporaryDirectory() as folder:
            table.append(
                {
                    "load": load,
                    "numbers in": kind,
                    "unpickle": milliseconds(lambda sent=sent: [pickle.loads(one) for one in sent], count),  # type: ignore[misc]
                    "to learner": milliseconds(lambda own=own: dumps(own, protocol=5), count),  # type: ignore[misc]
                    "four columns": milliseconds(lambda c=columns, f=folder: write(c, Path(f)), count),  # type: ignore[misc]
                    "KB sent": sum(map(len, sent)) / 1000 / count,
                    "KB in memory": memory / 1000 / count,
                }
            )
    return table


def main() -> None:
    options = arguments()
    gc.disable()
    table = [row for load in options.loads for row in rows(load, options.episodes)]
    report.show("Milliseconds of processor time, kilobytes, for an episode", table)
    report.save(options.out, options, {"rows": table})


if __name__ == "__main__":
    main()
