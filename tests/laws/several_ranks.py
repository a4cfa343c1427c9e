"""Updates on several ranks of torch.distributed: processes that meet as 4, 2 and 1 ranks in turn, and what each found.

As a script it starts them: `several_ranks.py FOLDER SIZES CASE ...`, with sizes as `4,2,1`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Container, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

SIZES = (4, 2, 1)
"""In this order nobody waits for a rank that still computes."""
PATIENCE = float(os.environ.get("LAWS_PATIENCE", "60"))
"""Seconds that a rank waits for the others."""


def compute(cases: Sequence[str], folder: Path, wanted: Container[int]) -> dict[int, list[dict[str, Any]]]:
    """What each rank found, by the number of ranks, of those that are wanted; `folder` is empty."""
    import torch

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    sizes = [size for size in SIZES if size in wanted]
    command = [sys.executable, __file__, str(folder), ",".join(map(str, sizes)), *cases]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    return {size: [torch.load(folder / f"{size}-{rank}.pt") for rank in range(size)] for size in sizes}


def main(folder: Path, sizes: Sequence[int], cases: Sequence[str]) -> int:
    """Start the ranks, as forks of a process that has imported everything; 1 if one of them fails, which ends all."""
    import rank_cases  # noqa: F401
    import torch.distributed.fsdp  # noqa: F401

    children = []
    for rank in range(max(sizes)):
        child = os.fork()
        if not child:
            _be(rank, folder, sizes, cases)
        children.append(child)
    for _ in children:
        if os.wait()[1]:
            os.killpg(0, signal.SIGKILL)
    return 0


def _be(rank: int, folder: Path, sizes: Sequence[int], cases: Sequence[str]) -> None:
    """Be one rank, to the end of its process."""
    code = 1
    try:
        for size in sizes:
            if rank < size:
                _meet(rank, size, folder, cases)
        code = 0
    except Exception:
        print(f"rank {rank}: {traceback.format_exc()}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def _meet(rank: int, size: int, folder: Path, cases: Sequence[str]) -> None:
    """Compute the cases as one of `size` ranks."""
    import torch
    import torch.distributed as dist
    from rank_cases import COMPILED, found_by

    from agent_r1_core.learning.ranks import Ranks

    torch.set_num_threads(1)
    meeting = f"file://{folder}/meeting-{size}"
    dist.init_process_group("gloo", meeting, timedelta(seconds=PATIENCE), size, rank)
    ranks = Ranks.of_group()
    tried = [case for case in cases if case != COMPILED or size < max(SIZES)]
    torch.save({case: found_by(ranks, case) for case in tried}, folder / f"{size}-{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.setpgrp()
    sys.exit(main(Path(sys.argv[1]), [int(size) for size in sys.argv[2].split(",")], sys.argv[3:]))
