"""What does each saving of the learner bring, in time and peak memory of an update?

    python benchmarks/learner.py

A rollout of 8 groups of 8 with a prompt of 200 tokens, half of the groups without spread; one option at a time is
switched. Memory is the peak over the loaded model, gradients and Adam's moments included. Every row is a fresh process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import report

report.keep_calm()

SAVINGS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "share_prefixes=false": {"share_prefixes": False},
    "skip_without_gradient=false": {"skip_without_gradient": False},
    "both false": {"share_prefixes": False, "skip_without_gradient": False},
    "bfloat16": {"dtype": "bfloat16"},
    "gradient_checkpointing=selective": {"checkpointing": "selective"},
    "gradient_checkpointing=full": {"checkpointing": "full"},
    "max_tokens_per_microbatch=1024": {"max_tokens_per_microbatch": 1024},
    "max_tokens_per_microbatch=16384": {"max_tokens_per_microbatch": 16384},
    "minibatches=4, old_logprobs=engine": {"minibatches": 4, "old_logprobs": "engine"},
    "minibatches=4, old_logprobs=learner": {"minibatches": 4, "old_logprobs": "learner"},
}


def measure(name: str, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Seconds and bytes of an update, in this process."""
    import torch
    from workload import make_learner, peak, random_groups

    torch.set_num_threads(1)
    size = {"groups": 2, "tokens": 64, "prompt": 24} if options.quick else {"groups": 8, "tokens": 320, "prompt": 200}
    groups = random_groups(**size, size=8, vocabulary=256, flat=True)
    learner = make_learner(folder, **({"dtype": "float32", "device": options.device} | SAVINGS[name]))
    seconds = []
    with peak(options.device) as found:
        for _ in range(options.repeats + 1):
            begun = time.perf_counter()
            learner.update(groups, 1)
            seconds.append(time.perf_counter() - begun)
    return {"seconds": statistics.median(seconds[1:]), "bytes": found.bytes}


def main() -> None:
    parser = report.parser(__doc__, "learner")
    parser.add_argument("--repeats", type=int, default=2, help="updates per process after the first")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--row", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        print(json.dumps(measure(options.row[0], Path(options.row[1]), options)))
        return
    from workload import make_folder

    own = ["--quick", "--repeats", "1"] if options.quick else ["--repeats", str(options.repeats)]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as home:
        folder = make_folder(Path(home), "tiny" if options.quick else "small")
        for name in list(SAVINGS)[:2] if options.quick else SAVINGS:
            found = report.fresh([sys.executable, __file__, "--row", name, folder, "--device", options.device, *own])
            rows.append({"options": name, "s/update": found["seconds"], "peak MiB": found["bytes"] / 2**20})
            rows[-1] |= {
                "time": found["seconds"] / rows[0]["s/update"],
                "memory": rows[-1]["peak MiB"] / rows[0]["peak MiB"],
            }
    report.show("Learner: savings", rows)
    report.save(options.out, options, {"savings": rows})


if __name__ == "__main__":
    main()
