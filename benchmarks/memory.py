"""Peak memory of a `with` block: of the GPU, or of the process on Linux."""

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
    """The measured peak."""

    bytes: float = float("nan")
    """Peak above the use at the start; NaN if it cannot be measured."""


@contextmanager
def peak(device: str = "cpu") -> Iterator[Peak]:
    """Measure the peak use of memory above that at the start."""
    measured = Peak()
    gc.collect()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = float(torch.cuda.memory_allocated())
        yield measured
        measured.bytes = torch.cuda.max_memory_allocated() - before
        return
    try:
        RESET.write_text("5")
        before = _status("VmRSS")
    except (OSError, StopIteration):
        yield measured
        return
    yield measured
    measured.bytes = _status("VmHWM") - before


def _status(field: str) -> float:
    """A field of the process's status, in bytes."""
    lines = STATUS.read_text(encoding="utf-8").splitlines()
    return 1024.0 * int(next(line for line in lines if line.startswith(field)).split()[1])
