"""Peak memory of what runs inside a `with`: of the card, or of the process where Linux tells."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Peak:
    """What was found."""

    bytes: float = float("nan")
    """Highest use over that at the beginning; not a number where it cannot be told."""


@contextmanager
def peak(device: str = "cpu") -> Iterator[Peak]:
    """Measure the highest use of memory over that at the beginning."""
    found = Peak()
    gc.collect()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = float(torch.cuda.memory_allocated())
        yield found
        found.bytes = torch.cuda.max_memory_allocated() - before
        return
    try:
        RESET.write_text("5")
        before = _status("VmRSS")
    except (OSError, StopIteration):
        yield found
        return
    yield found
    found.bytes = _status("VmHWM") - before


def _status(field: str) -> float:
    """Bytes of a field of the process's status."""
    lines = STATUS.read_text(encoding="utf-8").splitlines()
    return 1024.0 * int(next(line for line in lines if line.startswith(field)).split()[1])
