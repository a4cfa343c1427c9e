"""Peak memory of a `with` block: of the GPU, or of the process on Linux."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass
class Peak:
    """The measured peak."""

    bytes: float = float("nan")
    """Above the use at the start; NaN if it cannot be measured."""


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
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        yield measured
        return
    before = _status("VmRSS")
    yield measured
    measured.bytes = _status("VmHWM") - before


def _status(field: str) -> float:
    """A field of the process's status, in bytes."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    return 1024.0 * int(found[1]) if found else float("nan")
