"""Starting vLLM without disturbing the process around it.

vLLM reads its settings from environment variables while it is imported and started, reseeds the global random number
generators, and on a CPU replaces `torch.set_num_threads` with a function that does nothing. All of this is restored.
Two effects remain if the engine is in this process and on a CPU: memory is bound to one NUMA node, and each step draws
numbers from torch's global generator, on which no sample depends.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

import numpy as np
import torch


def multiply_exactly() -> None:
    """Have Triton multiply float32 as float32, in kernels that this process and its children compile from now on: its
    default on CUDA is TF32, whose log-probs differ from the learner's by more than rounding."""
    os.environ.setdefault("TRITON_F32_DEFAULT", "ieee")


@contextmanager
def starting(*, separate: bool, eager_cpu: bool, threads: int) -> Iterator[None]:
    """Set up the process to import vLLM and make an engine, in a thread that does nothing else.

    Keeps the user's `VLLM_*` variables for logging and for pinning to cores.

    Args:
        separate: whether the engine gets processes of its own.
        eager_cpu: whether it computes on a CPU without compiling.
        threads: number of torch threads in each process of the engine.
    """
    environment, generators, script = dict(os.environ), _random_states(), _hidden_script()
    set_num_threads = torch.set_num_threads
    _prepare(separate, eager_cpu, threads)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads = set_num_threads
        torch.set_num_threads(threads)
        sys.modules["__main__"].__dict__.update(script)
        _restore_random_states(generators)
        _restore_environment(environment)


def _prepare(separate: bool, eager_cpu: bool, threads: int) -> None:
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1" if separate else "0"
    os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "spawn"  # a fork of a process with OpenMP threads hangs
    os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # stdout is for the answer of a command
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")  # else every engine is pinned to the same cores
    if eager_cpu:
        # Otherwise the first log-prob waits seconds for one tiny function to compile. vLLM reads this on import; torch
        # reads it first here, before it is set, so that the caller can still compile.
        import torch._dynamo.config  # noqa: F401

        os.environ["TORCHDYNAMO_DISABLE"] = "1"
    if separate:
        # Only the caller handles interrupts and then ends vLLM's processes in order: they inherit this thread's signal
        # mask. The tracker of multiprocessing starts first, since its start removes the mask.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _hidden_script() -> dict[str, Any]:
    """Remove from the main module, and return, what would make each spawned process run the caller's script again;
    vLLM's processes need none of it."""
    main = sys.modules["__main__"].__dict__
    removed: dict[str, Any] = {name: main[name] for name in ("__file__", "__spec__") if name in main}
    main.pop("__file__", None)
    main["__spec__"] = None
    return removed


def _random_states() -> tuple[Any, Any, torch.Tensor]:
    return random.getstate(), np.random.get_state(), torch.random.get_rng_state()


def _restore_random_states(states: tuple[Any, Any, torch.Tensor]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.random.set_rng_state(states[2])


def _restore_environment(before: dict[str, str]) -> None:
    for name in set(os.environ) - set(before):
        del os.environ[name]
    for name, value in before.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
