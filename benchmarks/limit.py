"""How many times as long as its matrix products alone, at the machine's own rate, does a training step take?

The products are those that no learner could leave out: of each token that no other of its group's episodes shares, with
the layers' weights once in the engine and three times in the learner (forward, and backward for inputs and weights),
and with the output embeddings once for each sampled token in the engine, and three times in the learner. Groups that
teach nothing are played, but not learnt from. Attention and all else does not count, so the limit cannot be reached.

The rate is that of large square products, measured between the steps; both are processor time of one thread.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import report
from pairs import WARM, Training, interval

report.keep_calm()

SIZE = 1024
"""Of the measured products."""


def operations(run: Any, step: int, layers: int, head: int) -> float:
    """Of a step's products with weights of these sizes."""
    from agent_r1_core import Group
    from agent_r1_core.learning.batch import Batch
    from agent_r1_core.learning.packing import pack

    groups: dict[str, Group] = {}
    taught = set()
    for one, numbers in zip(run.read_trajectories(step), run.read_token_numbers(step), strict=True):
        groups.setdefault(one.task.id, Group(one.task)).trajectories.append(one)
        if any(numbers["advantages"] or ()):
            taught.add(one.task.id)
    total = 0.0
    for name, group in groups.items():
        batch = Batch.from_groups([group])
        tokens, actions = len(pack(batch, range(batch.size)).tree.ids), int(batch.action_mask.sum())
        total += 2.0 * (4 if name in taught else 1) * (layers * tokens + head * actions)
    return total


def rate() -> float:
    """Operations of a second of processor time in a large product."""
    import torch

    torch.set_num_threads(1)
    left, right = torch.randn(2, SIZE, SIZE)
    seconds = []
    for _ in range(6):
        begun = time.process_time()
        left @ right
        seconds.append(time.process_time() - begun)
    return 2 * SIZE**3 / statistics.median(seconds[1:])


def main() -> None:
    parser = report.parser(__doc__, "limit")
    parser.add_argument("--recipe", default="default")
    parser.add_argument("--settings", nargs="*", default=["seed=0", "threads=1", "model.dtype=float32"])
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    steps = 2 if options.quick else options.steps
    still = ["evaluation.every=0", "evaluation.at_start=false", "evaluation.at_end=false", "checkpoint.every=1000"]
    settings = [options.recipe, *options.settings, f"training.steps={WARM + steps}", *still]
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        training = Training("limit", Path(folder), settings)
        try:
            for number in range(WARM + steps):
                used, _ = training.step()
                rows.append({"step": number + 1, "processor s": used, "GFLOP/s of products": rate() / 1e9})
            training.finish()
        finally:
            training.close()
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
    policy: Any = Policy.load(run.model)
    layers = sum(one.numel() for name, one in policy.weights().items() if ".layers." in name and one.dim() == 2)
    head = policy.head.linear.weight.numel()
    for row in rows:
        row["GFLOP"] = operations(run, row["step"], layers, head) / 1e9
        row["limit s"] = row["GFLOP"] / row["GFLOP/s of products"]
        row["times the limit"] = row["processor s"] / row["limit s"]


if __name__ == "__main__":
    main()
