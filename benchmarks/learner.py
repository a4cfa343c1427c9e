"""What does each saving of the learner bring, in time and peak memory of an update?

    python benchmarks/learner.py

A rollout of 8 groups of 8 with a prompt of 200 tokens, half of the groups without spread; one option at a time is
switched. Memory is the peak over the loaded model, gradients and Adam's moments included. Every row is a fresh process.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import report

SAVINGS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "share_prefixes=false": {"share_prefixes": False},
    "skip_without_gradient=false": {"skip_without_gradient": False},
    "both false": {"share_prefixes": False, "skip_without_gradient": False},
    "bfloat16": {"dtype": "bfloat16"},
    "gradient_checkpointing=selective": {"checkpointing": "selective"},
    "gradient_checkpointing=full": {"checkpointing": "full"},
}


def measure(name: str, folder: str, quick: bool, repeats: int) -> dict[str, float]:
    import torch
    from workload import make_learner, peak, random_groups

    torch.set_num_threads(1)
    size = {"groups": 2, "tokens": 64, "prompt": 24} if quick else {"groups": 8, "tokens": 320, "prompt": 200}
    groups = random_groups(**size, size=8, vocabulary=256, flat=True)
    learner = make_learner(folder, **({"dtype": "float32", "device": "cpu"} | SAVINGS[name]))
    with peak() as found:
        seconds = report.seconds_of(lambda: learner.update(groups, 1), repeats)
    return {"seconds": seconds, "bytes": found.bytes}


def main() -> None:
    parser = report.parser(__doc__, "learner")
    parser.add_argument("--repeats", type=int, default=2, help="updates per process after the first")
    options = report.chosen(parser, repeats=1)
    from workload import make_folder

    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as home:
        folder = make_folder(Path(home), "tiny" if options.quick else "small")
        for name in list(SAVINGS)[:2] if options.quick else SAVINGS:
            found = report.afresh(measure, name, folder, options.quick, options.repeats)
            row = {"options": name, "s/update": found["seconds"], "peak MiB": found["bytes"] / 2**20}
            first = rows[0] if rows else row
            row |= {of: row[what] / first[what] for of, what in (("time", "s/update"), ("memory", "peak MiB"))}
            rows.append(row)
    report.show("Learner: savings", rows)
    report.save(options.out, options, {"savings": rows})


if __name__ == "__main__":
    main()
