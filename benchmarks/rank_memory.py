"""How much main memory does a learner rank take at the start: where each loads whole networks, and as it is?

    python benchmarks/rank_memory.py
    python benchmarks/rank_memory.py --ranks 2 4 --layers 24

A model of Qwen2's shape with drawn weights in a folder in bfloat16, of 0.2 billion parameters by default. Ranks are
processes of this machine that meet by gloo; each makes a learner of it, with GRPO and no reference. Per rank, the most
memory in use (VmHWM of Linux) until the learner is made, less that when all is imported. It counts mapped pages of the
model's file, 2 N bytes, for whoever reads it, and shrinks to the rank's share later.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import report

for name, value in report.CALM.items():
    os.environ.setdefault(name, value)

MIB = 2.0**20


def arguments() -> argparse.Namespace:
    """The command line."""
    options = report.parser(__doc__, "rank_memory")
    options.add_argument("--ranks", type=int, nargs="+", default=[2, 4], help="numbers of ranks")
    options.add_argument("--layers", type=int, default=13, help="of the model")
    options.add_argument("--hidden", type=int, default=896, help="the model's width")
    options.add_argument("--rank", type=int, nargs=2, help=argparse.SUPPRESS)
    options.add_argument("--whole", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.quick:
        chosen.ranks, chosen.layers, chosen.hidden = [2], 2, 128
    return chosen


def write_model(folder: Path, layers: int, hidden: int) -> int:
    """Write the model; returns its number of parameters."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    shape: dict[str, Any] = {"hidden_size": hidden, "intermediate_size": 38 * hidden // 7, "num_hidden_layers": layers}
    config = Qwen2Config(**shape, num_attention_heads=hidden // 64, num_key_value_heads=2, vocab_size=32_000)
    model: Any = Qwen2ForCausalLM(config).bfloat16()
    model.save_pretrained(folder)
    return sum(weight.numel() for weight in model.parameters())


def be_rank(rank: int, size: int, folder: Path, whole: bool) -> None:
    """Make a learner as one of the ranks and print what it took, in bytes."""
    import torch
    import torch.distributed as dist
    import torch.distributed.fsdp

    from agent_r1_core.contracts.training import TrainingConfig
    from agent_r1_core.learning.learner import Learner
    from agent_r1_core.learning.policy import Policy
    from agent_r1_core.learning.ranks import ONE_RANK, Ranks
    from agent_r1_core.plugins import Registry
    from agent_r1_core.testing import tiny_model

    torch.set_num_threads(1)
    Policy(tiny_model())  # imports what is imported late
    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=size)
    ranks = Ranks.of_group()
    before = peak()
    policy = Policy.load(folder, ranks=ONE_RANK if whole else ranks)
    Learner(policy, Registry.discover().create("algorithm", {"name": "grpo"}), TrainingConfig(), ranks=ranks)
    print(json.dumps(peak() - before), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def peak() -> int:
    """The most bytes that this process has had in use; `ru_maxrss` would begin with those of the process above it."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def measured(folder: Path, size: int, whole: bool) -> list[float]:
    """MiB of each rank."""
    (folder / "meeting").unlink(missing_ok=True)
    command = [sys.executable, __file__, "--folder", str(folder), *(["--whole"] if whole else []), "--rank"]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen([*command, str(n), str(size)], env=environment, stdout=subprocess.PIPE, text=True)
        for n in range(size)
    ]
    printed = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit("a rank failed; what it said stands above")
    return [json.loads(lines.splitlines()[-1]) / MIB for lines in printed]


def main() -> None:
    """Measure and print."""
    options = arguments()
    if options.rank:
        rank, size = options.rank
        be_rank(rank, size, options.folder, options.whole)
        return
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        parameters = write_model(Path(folder), options.layers, options.hidden)
        for size in options.ranks:
            for whole in (True, False):
                took = measured(Path(folder), size, whole)
                how = "every rank" if whole else "the first rank"
                rows.append(
                    {"ranks": size, "loads": how, "first rank MiB": took[0], "most of the others MiB": max(took[1:])}
                )
    report.show(f"Peak while a learner of {parameters / 1e6:.0f} M parameters is made", rows)
    report.save(options.out, options, {"rank_memory": rows, "parameters": parameters})


if __name__ == "__main__":
    main()
