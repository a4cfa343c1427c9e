"""How long do new weights take from the learner to the rollout workers?

    python benchmarks/publishing.py

A random model of 200 million parameters, with all workers on one local Ray. `snapshot s` is the learner's part: to
gather the weights of its ranks, to convert them to the precision of the engines, and to copy them into Ray's object
store. `load s` is the part of the rollout workers, all at once: to map the store's memory, and to copy the weights into
the engine. GB are those of one copy of the weights. A row is the median over publications, after two that warm up.

The second table takes the same steps one by one, in one process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import report

for name, value in report.CALM.items():
    os.environ.setdefault(name, value)

LAYOUTS = ((1, 1), (1, 2), (2, 2))
"""Learner workers and rollout workers."""
SHAPE = {
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 18,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "initializer_range": 0.02,
}


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "publishing")
    options.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"], help="precisions of the engines")
    options.add_argument("--repeats", type=int, default=7, help="publications of a row")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.dtypes, chosen.repeats = ["bfloat16"], 1
    return chosen


async def published(resolved: Any, site: Any, repeats: int) -> dict[str, float]:
    """Median seconds of both parts."""
    from agent_r1_core.assembly.assembly import assemble

    assembly = assemble(resolved, task_sets=("train",), site=site)
    snapshots, loads = [], []
    try:
        await assembly.start()
        for version in range(1, repeats + 2):  # the first, at the start, is not measured
            begun = time.perf_counter()
            weights = await assembly.learner.snapshot()
            sent = time.perf_counter()
            await assembly.rollouts.load_weights(weights, version)
            snapshots.append(sent - begun)
            loads.append(time.perf_counter() - sent)
    finally:
        await assembly.close()
    return {"snapshot s": statistics.median(snapshots[1:]), "load s": statistics.median(loads[1:])}


def one_by_one(folder: Path, dtype: str, repeats: int) -> dict[str, float]:
    """Median seconds of the steps."""
    import ray
    import torch

    from agent_r1_core.distributed.weights import in_parts, to_tensors
    from agent_r1_core.engines.weights import copy_weights
    from agent_r1_core.learning.policy import Policy
    from agent_r1_core.models import load_model

    policy, served = Policy.load(folder), load_model(folder, getattr(torch, dtype), "cpu")
    found: list[list[float]] = []
    for _ in range(repeats + 2):
        moments = [time.perf_counter()]
        parts = list(in_parts(policy.each_weight(dtype), dtype))
        moments.append(time.perf_counter())
        references = [ray.put(part) for part in parts]
        moments.append(time.perf_counter())
        tensors = to_tensors(ray.get(references))
        moments.append(time.perf_counter())
        copy_weights(served, tensors)
        moments.append(time.perf_counter())
        found.append([later - earlier for earlier, later in pairwise(moments)])
        del parts, references, tensors
    medians = [statistics.median(seconds[2:]) for seconds in zip(*found, strict=True)]
    return dict(zip(("convert s", "to store s", "map s", "to engine s"), medians, strict=True))


def main() -> None:
    options = arguments()
    from agent_r1_core.config.models import DistributedConfig
    from agent_r1_core.distributed import RaySite
    from agent_r1_core.distributed.cluster import connected
    from agent_r1_core.testing import tiny_model, tiny_model_folder
    from agent_r1_core.training.api import resolve
    from agent_r1_core.work.running import run_async

    shape: dict[str, Any] = {} if options.quick else SHAPE
    size = sum(parameter.numel() for parameter in tiny_model(**shape).parameters())
    rows, steps = [], []
    with TemporaryDirectory() as folder, connected(DistributedConfig()) as cluster:
        model = tiny_model_folder(Path(folder, "model"), **shape)
        for dtype in options.dtypes:
            gigabytes = size * {"float32": 4, "bfloat16": 2}[dtype] / 1e9
            for learners, players in LAYOUTS[-1:] if options.quick else LAYOUTS:
                keys = [
                    *(f"model.name={model}", f"model.dtype={dtype}", "threads=1", f"run.dir={folder}"),
                    *(f"distributed.rollout_workers={players}", f"distributed.learner_workers={learners}"),
                ]
                resolved = resolve("default", keys)
                site = RaySite(resolved.config.distributed, cluster, print, learning=True)
                try:
                    took = run_async(published(resolved, site, options.repeats))
                finally:
                    site.close()
                both = sum(took.values()) / gigabytes
                layout = {"engines": dtype, "learner workers": learners, "rollout workers": players}
                rows.append({**layout, "GB": gigabytes, **took, "s/GB": both, "load": os.getloadavg()[0]})
            steps.append({"engines": dtype, "GB": gigabytes, **one_by_one(model, dtype, options.repeats)})
    report.show(f"From the learner to all rollout workers, {size / 1e6:,.0f} M parameters", rows)
    report.show("Step by step, in one process", steps)
    report.save(options.out, options, {"publishing": rows, "steps": steps})


if __name__ == "__main__":
    main()
