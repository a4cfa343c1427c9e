"""Chooses device, precision and threads: by what the machine does fast, measured in about a second.

The choice is written into the run's configuration. In deterministic mode nothing is measured: one thread, float32.
"""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_r1_core.errors import ConfigError

if TYPE_CHECKING:
    import torch

_DECODING, _LEARNING = 64, 512
"""Rows of the measured products: one decoding step of many episodes, and a small micro-batch."""


@dataclass(frozen=True)
class Hardware:
    """What a run computes with."""

    device: str
    dtype: str
    """`float32` or `bfloat16`: the precision of forward passes; master weights are float32 always."""
    threads: int


def choose_hardware(device: str, dtype: str, threads: int | str, deterministic: bool, hidden: int) -> Hardware:
    """Resolve `auto` settings; `hidden` is the model's width, which decides what is fast.

    Raises:
        ConfigError: CUDA is asked for and absent, or asked for in deterministic mode.
    """
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("model.device is cuda, but torch sees no CUDA device; set model.device=cpu or auto")
    if deterministic and device == "cuda":
        raise ConfigError("deterministic runs are for the CPU; set model.device=cpu, or deterministic=false")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() and not deterministic else "cpu"
    if device == "cuda":
        chosen = "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
        return Hardware("cuda", chosen if dtype == "auto" else dtype, torch.get_num_threads())
    if deterministic:
        return Hardware("cpu", "float32" if dtype == "auto" else dtype, 1 if threads == "auto" else int(threads))
    count = _fast_threads(hidden) if threads == "auto" else int(threads)
    torch.set_num_threads(count)
    return Hardware("cpu", _fast_dtype(hidden) if dtype == "auto" else dtype, count)


def apply(hardware: Hardware, deterministic: bool) -> None:
    """Set torch's global switches, and keep transformers' own progress bars out of the run's display."""
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()

    torch.set_num_threads(hardware.threads)
    torch.use_deterministic_algorithms(deterministic)
    # float32 means float32 on a GPU too: TF32 rounds to 10 bits, too coarse for the agreement of LAW 2.
    torch.set_float32_matmul_precision("highest")


def _fast_threads(hidden: int) -> int:
    """The thread count with the best time of a layer-like product; more threads must win by a tenth to be worth it."""
    import torch

    best, best_seconds = 1, float("inf")
    count = 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    while count <= cores:
        torch.set_num_threads(count)
        seconds = _token_seconds(hidden, torch.float32)
        if seconds < 0.9 * best_seconds:
            best, best_seconds = count, seconds
        count *= 2
    return best


def _fast_dtype(hidden: int) -> str:
    """bfloat16 where it is at least 1.3 times as fast: it costs precision, so a draw goes to float32."""
    import torch

    fast = _token_seconds(hidden, torch.bfloat16) * 1.3 < _token_seconds(hidden, torch.float32)
    return "bfloat16" if fast else "float32"


def _token_seconds(hidden: int, dtype: torch.dtype) -> float:
    """Relative cost of a token that is decoded once and learnt from once; a backward pass costs twice its forward."""
    decoding = _product_seconds(_DECODING, hidden, dtype) / _DECODING
    return decoding + 3 * _product_seconds(_LEARNING, hidden, dtype) / _LEARNING


def _product_seconds(rows: int, hidden: int, dtype: torch.dtype) -> float:
    """Median seconds of a feed-forward block's products on `rows` tokens."""
    import torch

    generator = torch.Generator().manual_seed(0)
    options: dict[str, Any] = {"generator": generator}
    tokens = torch.randn(rows, hidden, **options).to(dtype)
    up = torch.randn(hidden, 3 * hidden, **options).to(dtype)
    down = torch.randn(3 * hidden, hidden, **options).to(dtype)
    seconds: list[float] = []
    with torch.no_grad():
        started = time.perf_counter()
        while len(seconds) < 9 and (len(seconds) < 3 or time.perf_counter() - started < 0.1):
            begin = time.perf_counter()
            torch.nn.functional.silu(tokens @ up) @ down
            seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:])
