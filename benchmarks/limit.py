"""How many times as long as its matrix products alone, at the machine's own rate, does a training step take?

The products are those that no learner could leave out: of each token that no other of its group's episodes shares, with
the layers' weights once in the engine and three times in the learner (forward, and backward for inputs and weights),
and with the output embeddings once for each sampled token in the engine, and three times in the learner. Groups that
teach nothing are played, but not learnt from. Attention and all else does not count, so the limit cannot be reached.

The rate is that of large square products, measured between the steps; both are processor time of one thread.
"""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import report
from pairs import STILL, WARM, Training, interval, training_parser

report.keep_calm()

SIZE = 1024
"""Of the measured products."""


def operations(run: Any, step: int, policy: Any) -> float:
    """Of a step's products."""
    from workload import products

    from agent_r1_core import Group

    groups: dict[str, Group] = {}
    taught = set()
    for one, numbers in zip(run.read_trajectories(step), run.read_token_numbers(step), strict=True):
        groups.setdefault(one.task.id, Group(one.task)).trajectories.append(one)
        if any(numbers["advantages"] or ()):
            taught.add(one.task.id)
    return sum((4 if name in taught else 1) * products(policy, [group])[1] for name, group in groups.items())


def main() -> None:
    options = report.chosen(training_parser(__doc__, "limit", 10), steps=2)
    import torch

    torch.set_num_threads(1)
    steps = WARM + options.steps
    settings = [options.recipe, *options.settings, f"training.steps={steps}", *STILL]
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        with closing(Training("limit", Path(folder), settings)) as training:
            for number in range(steps):
                used, _ = training.step()
                rate = report.product_rate(SIZE, 5, clock=time.process_time)
                rows.append({"step": number + 1, "processor s": used, "GFLOP/s of products": rate / 1e9})
            training.finish()
        add_limits(Path(folder) / "limit", rows)
    rows = rows[WARM:]
    report.show("Steps", rows)
    found = interval([row["times the limit"] for row in rows])
    report.show("A step, as a multiple of its limit", [found])
    report.save(options.out, options, {"steps": rows, "multiple": found})


def add_limits(path: Path, rows: list[dict[str, Any]]) -> None:
    """Add what the products of each step take, and how many times as long the step took."""
    from agent_r1_core.learning.policy import Policy
    from agent_r1_core.runs.run import Run

    run = Run.open(path)
    policy = Policy.load(run.model)
    for row in rows:
        row["GFLOP"] = operations(run, row["step"], policy) / 1e9
        row["limit s"] = row["GFLOP"] / row["GFLOP/s of products"]
        row["times the limit"] = row["processor s"] / row["limit s"]


if __name__ == "__main__":
    main()
