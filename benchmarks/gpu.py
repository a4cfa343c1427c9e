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
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import report
from gpu_learner import GIB, heads, make_learner, matrix_rate, operations, profiled, seconds_of, updates, wait
from vs_trl import at_peer

from agent_r1_core import kernels

report.keep_calm()

ROWS = (1, 16, 64, 256)
"""Of a decoding step."""
TRAINED = 18
"""Bytes of a weight under training: itself, gradient and two moments in float32, and a copy in bfloat16."""
ENGINE = 2
"""Bytes of a weight that the engine holds."""
SHARE = 0.6
"""Of a card's memory, for weights; the rest is for activations."""


def arguments() -> argparse.Namespace:
    options = report.parser(__doc__, "gpu")
    options.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options.add_argument("--shape", default="qwen2.5-3b", help="shape of the model, see workload.py")
    options.add_argument("--layers", type=int, help="of the model; default: as many of its own as fit")
    options.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    options.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16"])
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
    chosen = options.parse_args()
    if chosen.quick:
        chosen.shape, chosen.device, chosen.repeats = "tiny", "cpu", 1
        chosen.episodes, chosen.prompt, chosen.new_tokens, chosen.microbatch = [8], 32, 8, 512
    return chosen


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


def decoding(folder: Path, options: argparse.Namespace, rate: float) -> dict[str, Any]:
    """The tables of the part `decoding`."""
    import torch
    from agent_r1_transformers.engine import choose_decoder
    from agent_r1_transformers.graphs import Graphs

    from agent_r1_core.contracts.engine import EngineModel
    from agent_r1_core.engines.weights import load_module

    rows: list[dict[str, Any]] = []
    with torch.inference_mode():
        module = load_module(EngineModel(str(folder), options.dtype, options.device))
        decoder: Any = choose_decoder(module)
        for count in (4,) if options.quick else ROWS:
            contexts = [[(7 * row + place) % 200 for place in range(options.prompt)] for row in range(count)]
            _read(decoder, [context[:-1] for context in contexts])
            took = []
            for recorded in (False, True) if options.device == "cuda" else (False,):
                decoder.graphs = Graphs() if recorded else None
                for step in (decoder.next_logits, partial(_sampled, decoder)):
                    took.append(seconds_of(partial(step, contexts), options.device, 5 * options.repeats))
            row = {"rows": count, "model ms": 1e3 * took[0], "with sampling ms": 1e3 * took[1]}
            if len(took) > 2:
                row |= {"from a graph ms": 1e3 * took[2], "with sampling, from a graph ms": 1e3 * took[3]}
                row |= {"times as fast": took[1] / took[3]}
            rows.append(row | {"tokens/s": count / took[-1]})
        report.show(f"A step of {type(decoder).__name__} after {options.prompt} ids", rows)
        kernels = profiled(lambda: _sampled(decoder, contexts), options.device)
    report.show(f"Where the time of a step with {count} rows goes", kernels)
    return {"decoding": rows, "step's kernels": kernels}


def _read(decoder: Any, contexts: list[list[int]]) -> None:
    """Fill the cache, a few rows at a time."""
    for first in range(0, len(contexts), 16):
        some = contexts[first : first + 16]
        decoder.cache.reserve(len(contexts), len(contexts[0]) + 64)
        decoder.read(first, [0] * len(some), some)


def _sampled(decoder: Any, contexts: list[list[int]]) -> None:
    from agent_r1_core.engines.sampling import draws
    from agent_r1_core.testing import make_request

    requests = [make_request(context, 8, row) for row, context in enumerate(contexts)]
    decoder.sample(contexts, draws(requests, [0] * len(requests)))


def steps(folder: Path, options: argparse.Namespace, rate: float) -> dict[str, Any]:
    """The tables of the part `step`."""
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
        async with served(folder, "transformers", options.dtype, options.device, most, **graphs) as model:
            for episodes in options.episodes:
                steps = [
                    await _step(model, learner, episodes, number, options) for number in range(options.repeats + 1)
                ]
                took = {name: statistics.median(step[name] for step, _ in steps[1:]) for name in steps[0][0]}
                computed, work = operations(learner, steps[-1][1])
                rows.append(
                    {
                        "episodes": episodes,
                        "rollout s": took["rollout"],
                        "rollout tokens/s": took["sampled"] / took["rollout"],
                        "update s": took["update"],
                        "learner tokens/s": took["tokens"] / took["update"],
                        "computed tokens/s": computed / took["update"],
                        "share of matrix rate %": 100 * work / took["update"] / rate,
                        "weights s": took["weights"],
                        "s/step": took["rollout"] + took["update"] + took["weights"],
                    }
                )
    return [row | {"peak GiB": found.bytes / GIB} for row in rows]


async def _step(
    model: Any, learner: Any, episodes: int, number: int, options: argparse.Namespace
) -> tuple[dict[str, float], Any]:
    """Play, update and load weights: the seconds of each and the tokens, and the groups."""
    moments = [time.perf_counter()]
    result = await model.play(episodes, options.new_tokens, number, turns=1, prompt=options.prompt)
    moments.append(time.perf_counter())
    learner.update(result.groups, 1)
    wait(options.device)
    moments.append(time.perf_counter())
    await model.engine.load_weights(learner.policy.weights(), number)
    wait(options.device)
    moments.append(time.perf_counter())
    took = dict(zip(("rollout", "update", "weights"), (b - a for a, b in pairwise(moments)), strict=True))
    took["sampled"] = sum(one.action_tokens for one in result.trajectories)
    took["tokens"] = sum(one.tokens for one in result.trajectories)
    return took, result.groups


def peer(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What TRL says of its steps."""
    numbers = {
        "--steps": options.repeats + 2,
        "--rollouts": options.episodes[0],
        "--micro": min(options.micro, options.episodes[0]),
        "--prompt": options.prompt,
        "--completion": options.new_tokens,
    }
    words = [word for pair in numbers.items() for word in pair]
    precision = ["--bf16"] if options.dtype == "bfloat16" else []
    return at_peer(options.trl_python.absolute(), "peer_trl.py", "continue", "--model", folder, *words, *precision)


PARTS: dict[str, Callable[[Path, argparse.Namespace, float], dict[str, Any]]] = {
    "learner": updates,
    "head": heads,
    "decoding": decoding,
    "step": steps,
}


def main() -> None:
    options = arguments()
    kernels.switch(not options.plain)
    with tempfile.TemporaryDirectory() as home:
        folder, layers = make_model(options, Path(home))
        rate = matrix_rate(options.device, options.dtype)
        print(f"{options.shape} with {layers} layers, {options.dtype}, {options.device}; ", end="")
        print(f"matrix rate: {rate / 1e12:.3g} tera-operations a second", flush=True)
        tables: dict[str, Any] = {"layers": layers, "matrix_rate": rate}
        for part in options.parts:
            tables |= PARTS[part](folder, options, rate)
    report.save(options.out, options, tables)


if __name__ == "__main__":
    main()
