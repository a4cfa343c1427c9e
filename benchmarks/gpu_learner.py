"""Updates and heads on a device: what one attention kernel, checkpointing and chunks bring in time and memory."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import report

GIB = 2.0**30
WORKLOADS = {
    "64 sequences of 1,024 tokens": {"groups": 8, "size": 8, "tokens": 1024, "prompt": 512},
    "512 sequences of 160 tokens": {"groups": 32, "size": 16, "tokens": 160, "prompt": 96},
}
QUICK = {"8 sequences of 64 tokens": {"groups": 2, "size": 4, "tokens": 64, "prompt": 24}}
KERNELS = 12
"""Rows of a profile."""


def wait(device: str) -> None:
    """Wait for the GPU."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def seconds_of(work: Callable[[], object], device: str, repeats: int) -> float:
    """Median over `repeats` calls after a first one."""
    seconds = []
    for _ in range(repeats + 1):
        wait(device)
        begun = time.perf_counter()
        work()
        wait(device)
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds[1:])


def matrix_rate(device: str, dtype: str) -> float:
    """Operations per second of a large square matrix product."""
    import torch

    size = 8192 if device == "cuda" else 256
    left, right = (torch.randn(size, size, device=device, dtype=getattr(torch, dtype)) for _ in range(2))
    return 2 * size**3 / seconds_of(lambda: left @ right, device, 12)


def make_learner(folder: Path, options: argparse.Namespace) -> Any:
    """A GRPO learner of the model that computes every group."""
    import workload

    settings = {"max_tokens_per_microbatch": options.microbatch, "skip_without_gradient": False}
    return workload.make_learner(folder, options.dtype, options.device, options.gradient_checkpointing, **settings)


def operations(learner: Any, groups: list[Any]) -> tuple[int, float]:
    """Tokens that an update computes, and the operations of its matrix products with weights."""
    from agent_r1_core.learning.batch import Batch
    from agent_r1_core.learning.packing import micro_batches

    batch = Batch.from_groups(groups)
    packs = micro_batches(batch, range(batch.size), learner.settings.max_tokens_per_microbatch)
    tokens = sum(len(packed.tree.ids) for packed in packs)
    head = learner.policy.head.linear.weight.numel()
    layers = sum(weight.numel() for name, weight in learner.policy.weights().items() if ".layers." in name)
    return tokens, 6.0 * (layers * tokens + head * int(batch.action_mask.sum()))


def updates(folder: Path, options: argparse.Namespace, rate: float) -> dict[str, Any]:
    """The tables of the part `learner`."""
    from workload import random_groups

    begun = time.perf_counter()
    learner = make_learner(folder, options)
    print(f"model loaded, kernels compiled: {time.perf_counter() - begun:.1f} s", flush=True)
    own, rows = learner.policy.decoder.tree_mask, list[dict[str, Any]]()
    if own is None:
        print("attention takes a kernel for each span here, and nothing else")
    workloads = QUICK if options.quick or options.shape == "tiny" else WORKLOADS
    vocabulary = min(learner.policy.head.vocabulary, 100_000)
    played = {name: random_groups(**form, vocabulary=vocabulary, flat=False) for name, form in workloads.items()}
    with _learner_as(learner, own, "full"):  # makes the optimiser's moments, which are there from then on
        learner.update(next(iter(played.values())), 1)
    for name, groups in played.items():
        for checkpointing in ("none", "selective", "full"):
            for mask in dict.fromkeys((own, None)):
                row = {"rollout": name, "attention": "a kernel for each span" if mask is None else "one kernel"}
                with _learner_as(learner, mask, checkpointing):
                    rows.append(row | {"checkpointing": checkpointing} | _updated(learner, groups, options, rate))
    report.show("Updates; the peak is above weights and moments", rows)
    with _learner_as(learner, own, "full"):
        kernels = profiled(lambda: learner.update(groups, 1), options.device)
    report.show("Where the time of the last such update goes, with checkpointing", kernels)
    return {"updates": rows, "update's kernels": kernels}


@contextmanager
def _learner_as(learner: Any, mask: Any, checkpointing: Any) -> Iterator[None]:
    """The learner with a way of attention, and a value of `model.gradient_checkpointing`."""
    from agent_r1_core.learning.recomputation import recompute

    policy = learner.policy
    before = policy.decoder.tree_mask, policy.decoder.training_mode
    policy.decoder.tree_mask, policy.decoder.training_mode = mask, checkpointing != "none"
    recompute(policy.decoder.module, checkpointing)
    try:
        yield
    finally:
        policy.decoder.tree_mask, policy.decoder.training_mode = before


def _updated(learner: Any, groups: list[Any], options: argparse.Namespace, rate: float) -> dict[str, Any]:
    """Time and peak memory of an update; nothing but None where it does not fit into the device."""
    import torch
    from workload import peak

    computed, work = operations(learner, groups)
    tokens = sum(one.tokens for group in groups for one in group.trajectories)
    seconds = None
    with suppress(torch.OutOfMemoryError), peak(options.device) as found:
        seconds = seconds_of(lambda: learner.update(groups, 1), options.device, options.repeats)
    if seconds is None:
        learner.optimiser.clear()
        torch.cuda.empty_cache()
        return dict.fromkeys(("s/update", "tokens/s", "computed tokens/s", "share of matrix rate %", "peak GiB"))
    return {
        "s/update": seconds,
        "tokens/s": tokens / seconds,
        "computed tokens/s": computed / seconds,
        "share of matrix rate %": 100 * work / seconds / rate,
        "peak GiB": found.bytes / GIB,
    }


def heads(folder: Path, options: argparse.Namespace, rate: float) -> dict[str, Any]:
    """The table of the part `head`: as the learner computes it, and by a log-softmax over all logits."""
    import torch
    from workload import peak

    from agent_r1_core.learning.head import Head
    from agent_r1_core.models import load_model

    model = load_model(folder, torch.float32, options.device)
    head, width, rows = Head(model), model.config.hidden_size, []
    kind = getattr(torch, options.dtype)

    def by_all_logits(hidden: Any, ids: Any) -> Any:
        table = torch.log_softmax(head.logits(hidden), -1)
        return table.gather(1, ids[:, None])[:, 0]

    def work(way: Any, hidden: Any, ids: Any) -> None:
        with torch.autocast(options.device, kind, enabled=options.dtype == "bfloat16"):
            logprobs = way(hidden, ids)
        logprobs.sum().backward()

    ways = {"in chunks": lambda hidden, ids: head.logprobs(hidden, ids, 1.0)[0], "by all logits": by_all_logits}
    for tokens in (64,) if options.quick else (1024, 4096, 16384):
        hidden = torch.randn(tokens, width, device=options.device, requires_grad=True)
        ids = torch.randint(head.vocabulary, (tokens,), device=options.device)
        for name, way in ways.items():
            row: dict[str, Any] = {"tokens": tokens, "log-probs": name, "ms": None, "peak GiB": None}
            with suppress(torch.OutOfMemoryError), peak(options.device) as found:
                row["ms"] = 1e3 * seconds_of(partial(work, way, hidden, ids), options.device, options.repeats)
            if row["ms"] is None:
                torch.cuda.empty_cache()
            else:
                row["peak GiB"] = found.bytes / GIB
            rows.append(row)
    report.show("Log-probs of chosen tokens and their gradient", rows)
    return {"heads": rows}


def profiled(work: Callable[[], object], device: str) -> list[dict[str, Any]]:
    """The operations that took longest in one call: on CUDA its kernels, by their own time."""
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    wait(device)
    begun = time.perf_counter()
    with profile(activities=activities) as profiler:
        work()
        wait(device)
    wall = 1e6 * (time.perf_counter() - begun)
    took = "self_device_time_total" if device == "cuda" else "self_cpu_time_total"
    kernels = [event for event in profiler.key_averages() if getattr(event, took) > 0]
    if device == "cuda":
        kernels = [event for event in kernels if str(event.device_type).endswith("CUDA")]
    kernels.sort(key=lambda event: -getattr(event, took))
    found = [(event.key.replace("|", " "), event.count, getattr(event, took)) for event in kernels]
    found.insert(KERNELS, ("all together", sum(one[1] for one in found), sum(one[2] for one in found)))
    return [
        {"operation": name[:80], "calls": calls, "ms": spent / 1e3, "share of the wall clock %": 100 * spent / wall}
        for name, calls, spent in found[: KERNELS + 1]
    ]
