"""How much of a GPU do rollout and learner use, what do its savings bring there, and how fast is TRL on the card?

    python benchmarks/gpu.py
    python benchmarks/gpu.py --parts step --trl-python PATH --micro 8
    python benchmarks/gpu.py --shape tiny --device cpu      # the same on a CPU, to see that it runs

Random weights, bfloat16, in the shape of Qwen2.5-3B with as many layers as training fits into the card. Four parts:

- `learner`: an update with one attention kernel for a tree and with one for each span, with and without gradient
  checkpointing, from few long sequences and from many short ones.
- `head`: log-probs of chosen tokens and their gradient, in chunks and by all logits.
- `decoding`: a step that samples one id for every row, launched kernel by kernel and from a CUDA graph.
- `step`: rollout (one turn of 256 sampled tokens after 512 of prompt, groups of 8), update, new weights in the engine;
  TRL's step is rollout and update, on the same folder, one turn, all its tokens.

The card's rate is measured with products of large matrices. An update's share of it counts six operations per weight
and computed token (the head: per action token), so neither attention nor anything computed twice; tokens that a group
has in common are computed once, and count once there. The kernels that took longest follow learner and decoding.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import report
from vs_trl import at_peer

from agent_r1_core import kernels

report.keep_calm()

GIB = 2.0**30
WORKLOADS = {
    "64 sequences of 1,024 tokens": {"groups": 8, "size": 8, "tokens": 1024, "prompt": 512},
    "512 sequences of 160 tokens": {"groups": 32, "size": 16, "tokens": 160, "prompt": 96},
}
QUICK = {"8 sequences of 64 tokens": {"groups": 2, "size": 4, "tokens": 64, "prompt": 24}}
ROWS = (1, 16, 64, 256)
"""Of a decoding step."""
TRAINED = 18
"""Bytes of a weight under training: itself, gradient and two moments in float32, and a copy in bfloat16."""
ENGINE = 2
"""Bytes of a weight that the engine holds."""
SHARE = 0.6
"""Of a card's memory, for weights; the rest is for activations."""
KERNELS = 12
"""Rows of a profile."""


def arguments() -> argparse.Namespace:
    options = report.parser(__doc__, "gpu")
    options.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options.add_argument("--shape", default="qwen2.5-3b", help="shape of the model, see workload.py")
    options.add_argument("--layers", type=int, help="of the model; default: as many of its own as fit")
    options.add_argument("--device", default="cuda", choices=["cpu", "cuda"])

    options.add_argument("--episodes", type=int, nargs="+", default=[64, 256], help="TRL plays as many as the first")
    options.add_argument("--prompt", type=int, default=512, help="tokens")
    options.add_argument("--new-tokens", type=int, default=256)
    options.add_argument("--microbatch", type=int, default=4096, help="training.max_tokens_per_microbatch")
    options.add_argument("--gradient-checkpointing", default="none", choices=["none", "selective", "full"])
    options.add_argument("--plain", action="store_true", help="neither CUDA graphs nor kernels that torch compiles")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--trl-python", type=Path, help="Python of an environment that has TRL")
    options.add_argument("--micro", type=int, default=8, help="TRL's rollouts of one backward pass")
    options.add_argument("--folder", type=Path, help="folder of the model, written if missing")
    quick = {"shape": "tiny", "device": "cpu", "repeats": 1, "episodes": [8], "prompt": 32}
    return report.chosen(options, **quick, new_tokens=8, microbatch=512)


def fitting_layers(shape: dict[str, Any], free: float) -> int:
    """How many of its layers a model may have so that its training fits into the free bytes of a device."""
    hidden, inner = shape["hidden_size"], shape["intermediate_size"]
    key_share = shape.get("num_key_value_heads", 2) / shape.get("num_attention_heads", 4)
    layer = (2 + 2 * key_share) * hidden**2 + 3 * hidden * inner
    embeddings = shape.get("vocab_size", 256) * hidden
    weights = SHARE * free / (TRAINED + ENGINE)
    return max(1, min(shape["num_hidden_layers"], int((weights - embeddings) / layer)))


def make_model(options: argparse.Namespace, home: Path) -> tuple[Path, int]:
    """The model's folder, and how many layers it has."""
    import torch
    from workload import SHAPES, make_folder

    shape = SHAPES[options.shape]
    layers = options.layers or shape["num_hidden_layers"]
    if options.device == "cuda" and options.layers is None:
        layers = fitting_layers(shape, torch.cuda.get_device_properties(0).total_memory)
    name = f"{options.shape}, {layers} layers"
    SHAPES[name] = shape | {"num_hidden_layers": layers}
    return make_folder(options.folder or home / "model", name, "bfloat16", options.device), layers


def profiled(work: Callable[[], object], device: str) -> list[dict[str, Any]]:
    """The operations that took longest in one call: on CUDA its kernels, by their own time."""
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    report.wait(device)
    begun = time.perf_counter()
    with profile(activities=activities) as profiler:
        work()
        report.wait(device)
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


def make_learner(folder: Path, options: argparse.Namespace) -> Any:
    """A GRPO learner of the model that computes every group."""
    import workload

    settings = {"max_tokens_per_microbatch": options.microbatch, "skip_without_gradient": False}
    return workload.make_learner(folder, "bfloat16", options.device, options.gradient_checkpointing, **settings)


def updates(folder: Path, options: argparse.Namespace, rate: float) -> dict[str, Any]:
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

    tokens = sum(one.tokens for group in groups for one in group.trajectories)
    seconds = None
    with suppress(torch.OutOfMemoryError), peak(options.device) as found:
        seconds = report.seconds_of(lambda: learner.update(groups, 1), options.repeats, options.device)
    if seconds is None:
        learner.optimiser.clear()
        torch.cuda.empty_cache()
        return dict.fromkeys(("s/update", "tokens/s", "computed tokens/s", "share of matrix rate %", "peak GiB"))
    row = {"s/update": seconds, "tokens/s": tokens / seconds, **shares(learner, groups, seconds, rate)}
    return row | {"peak GiB": found.bytes / GIB}


def shares(learner: Any, groups: list[Any], seconds: float, rate: float) -> dict[str, float]:
    """How fast an update computes its tokens and operations, forward and backward."""
    from workload import products

    computed, work = products(learner.policy, groups, learner.settings.max_tokens_per_microbatch)
    return {"computed tokens/s": computed / seconds, "share of matrix rate %": 100 * 3 * work / seconds / rate}


def heads(folder: Path, options: argparse.Namespace, rate: float) -> dict[str, Any]:
    """The table of the part `head`: as the learner computes it, and by a log-softmax over all logits."""
    import torch
    from workload import peak

    from agent_r1_core.learning.head import Head
    from agent_r1_core.models import load_model

    model = load_model(folder, torch.float32, options.device)
    head, width, rows = Head(model), model.config.hidden_size, []

    def by_all_logits(hidden: Any, ids: Any) -> Any:
        table = torch.log_softmax(head.logits(hidden), -1)
        return table.gather(1, ids[:, None])[:, 0]

    def work(way: Any, hidden: Any, ids: Any) -> None:
        with torch.autocast(options.device, torch.bfloat16):
            logprobs = way(hidden, ids)
        logprobs.sum().backward()

    ways = {"in chunks": lambda hidden, ids: head.logprobs(hidden, ids, 1.0)[0], "by all logits": by_all_logits}
    for tokens in (64,) if options.quick else (1024, 4096, 16384):
        hidden = torch.randn(tokens, width, device=options.device, requires_grad=True)
        ids = torch.randint(head.vocabulary, (tokens,), device=options.device)
        for name, way in ways.items():
            row: dict[str, Any] = {"tokens": tokens, "log-probs": name, "ms": None, "peak GiB": None}
            with suppress(torch.OutOfMemoryError), peak(options.device) as found:
                row["ms"] = 1e3 * report.seconds_of(partial(work, way, hidden, ids), options.repeats, options.device)
            if row["ms"] is None:
                torch.cuda.empty_cache()
            else:
                row["peak GiB"] = found.bytes / GIB
            rows.append(row)
    report.show("Log-probs of chosen tokens and their gradient", rows)
    return {"heads": rows}


def decoding(folder: Path, options: argparse.Namespace, rate: float) -> dict[str, Any]:
    import torch
    from agent_r1_transformers.engine import choose_decoder
    from agent_r1_transformers.graphs import Graphs

    from agent_r1_core.contracts.engine import EngineModel
    from agent_r1_core.engines.weights import load_module

    rows: list[dict[str, Any]] = []
    with torch.inference_mode():
        module = load_module(EngineModel(str(folder), "bfloat16", options.device))
        decoder: Any = choose_decoder(module)
        for count in (4,) if options.quick else ROWS:
            contexts = [[(7 * row + place) % 200 for place in range(options.prompt)] for row in range(count)]
            for first in range(0, count, 16):  # fill the cache, a few rows at a time
                some = [context[:-1] for context in contexts[first : first + 16]]
                decoder.cache.reserve(count, len(some[0]) + 64)
                decoder.read(first, [0] * len(some), some)
            took = []
            for recorded in (False, True) if options.device == "cuda" else (False,):
                decoder.graphs = Graphs() if recorded else None
                for step in (decoder.next_logits, partial(_sampled, decoder)):
                    took.append(report.seconds_of(partial(step, contexts), 5 * options.repeats, options.device))
            row = {"rows": count, "model ms": 1e3 * took[0], "with sampling ms": 1e3 * took[1]}
            if len(took) > 2:
                row |= {"from a graph ms": 1e3 * took[2], "with sampling, from a graph ms": 1e3 * took[3]}
                row |= {"times as fast": took[1] / took[3]}
            rows.append(row | {"tokens/s": count / took[-1]})
        report.show(f"A step of {type(decoder).__name__} after {options.prompt} ids", rows)
        kernels = profiled(lambda: _sampled(decoder, contexts), options.device)
    report.show(f"Where the time of a step with {count} rows goes", kernels)
    return {"decoding": rows, "step's kernels": kernels}


def _sampled(decoder: Any, contexts: list[list[int]]) -> None:
    from agent_r1_core.engines.sampling import draws
    from agent_r1_core.testing import make_request

    requests = [make_request(context, 8, row) for row, context in enumerate(contexts)]
    decoder.sample(contexts, draws(requests, [0] * len(requests)))


def steps(folder: Path, options: argparse.Namespace, rate: float) -> dict[str, Any]:
    said = peer(folder.absolute(), options) if options.trl_python is not None else None
    rows = asyncio.run(our_steps(folder, options, rate))
    report.show("A step: rollout, update, weights", rows)
    tables: dict[str, Any] = {"step": rows}
    if said is not None:
        theirs, own = statistics.median(report.warm(said["seconds"])), rows[0]["s/step"]
        tables["against TRL"] = [
            {"side": "agent-r1", "s/step": own, "TRL / side": theirs / own, "peak GiB": rows[0]["peak GiB"]},
            {"side": "TRL", "s/step": theirs, "TRL / side": 1.0, "peak GiB": said["peak_bytes"] / GIB},
        ]
        report.show(f"{options.episodes[0]} episodes a step", tables["against TRL"])
    return tables


async def our_steps(folder: Path, options: argparse.Namespace, rate: float) -> list[dict[str, Any]]:
    """One row for each number of episodes at once, by engine and learner on one device, as in a training run."""
    from workload import peak, served

    rows = []
    with peak(options.device) as found:
        learner = make_learner(folder, options)
        most = max(options.episodes)
        graphs = {"cuda_graphs": not options.plain}
        async with served(folder, "transformers", "bfloat16", options.device, most, **graphs) as model:
            for episodes in options.episodes:
                repeats = range(options.repeats + 1)
                steps = [await _step(model, learner, episodes, number, options) for number in repeats]
                took = {name: statistics.median(step[name] for step, _ in steps[1:]) for name in steps[0][0]}
                row = {"episodes": episodes, "rollout s": took["rollout"]}
                row |= {"rollout tokens/s": took["sampled"] / took["rollout"], "update s": took["update"]}
                row |= {"learner tokens/s": took["tokens"] / took["update"]}
                row |= shares(learner, steps[-1][1], took["update"], rate)
                whole = took["rollout"] + took["update"] + took["weights"]
                rows.append(row | {"weights s": took["weights"], "s/step": whole})
    return [row | {"peak GiB": found.bytes / GIB} for row in rows]


async def _step(
    model: Any, learner: Any, episodes: int, number: int, options: argparse.Namespace
) -> tuple[dict[str, float], Any]:
    """Play, update and load weights: the seconds of each and the tokens, and the groups."""
    begun = time.perf_counter()
    result = await model.play(episodes, options.new_tokens, number, turns=1, prompt=options.prompt)
    played = time.perf_counter()
    learner.update(result.groups, 1)
    report.wait(options.device)
    learnt = time.perf_counter()
    await model.engine.load_weights(learner.policy.weights(), number)
    report.wait(options.device)
    took = {"rollout": played - begun, "update": learnt - played, "weights": time.perf_counter() - learnt}
    took["sampled"] = sum(one.action_tokens for one in result.trajectories)
    took["tokens"] = sum(one.tokens for one in result.trajectories)
    return took, result.groups


def peer(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    episodes = options.episodes[0]
    sizes = ["--steps", options.repeats + 2, "--rollouts", episodes, "--micro", min(options.micro, episodes)]
    words = ["--model", folder, *sizes, "--prompt", options.prompt, "--completion", options.new_tokens, "--bf16"]
    return at_peer(options.trl_python.absolute(), "peer_trl.py", "continue", *words)


Part = Callable[[Path, argparse.Namespace, float], dict[str, Any]]
PARTS: dict[str, Part] = {"learner": updates, "head": heads, "decoding": decoding, "step": steps}


def main() -> None:
    options = arguments()
    import torch

    kernels.switch(not options.plain)
    with tempfile.TemporaryDirectory() as home:
        folder, layers = make_model(options, Path(home))
        size = 8192 if options.device == "cuda" else 256
        rate = report.product_rate(size, 12, options.device, torch.bfloat16)
        print(f"{options.shape} with {layers} layers, bfloat16, {options.device}; ", end="")
        print(f"matrix rate: {rate / 1e12:.3g} tera-operations a second", flush=True)
        tables: dict[str, Any] = {"layers": layers, "matrix_rate": rate}
        for part in options.parts:
            tables |= PARTS[part](folder, options, rate)
    report.save(options.out, options, tables)


if __name__ == "__main__":
    main()
