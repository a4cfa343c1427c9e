"""How much of a GPU do rollout and learner use, what do its savings bring there, and how fast is TRL on the card?

    python benchmarks/gpu.py
    python benchmarks/gpu.py --parts step --trl-python PATH --micro 8
    python benchmarks/gpu.py --shape tiny --device cpu      # the same on a CPU, to see that it runs

Random weights, bfloat16, in the shape of Qwen2.5-3B with as many layers as training fits into the card. Four parts:

- `learner`: an update with one attention kernel for a tree and with one for each span, with and without gradient
  checkpointing, from few long sequences and from many short ones.
- `head`: log-probs of chosen tokens and their gradient, in chunks and by all logits.
- `decoding`: a step that samples one id for every row, and the same step as one CUDA graph; the cache's span is fixed
  there, so the graph shows what there is to gain, and is no part of the engine.
- `step`: rollout (one turn of 256 sampled tokens after 512 of prompt, groups of 8), update, new weights in the engine;
  TRL's step is rollout and update, on the same folder, one turn, all its tokens.

The card's rate is measured with products of large matrices. An update's share of it counts six operations per weight
and computed token (the head: per action token), so neither attention nor anything computed twice; tokens that a group
has in common are computed once, and count once there. The kernels that took longest stand below learner and decoding.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import report

report.keep_calm()

PARTS = ("learner", "head", "decoding", "step")
TRAINED = 18
"""Bytes of a weight under training: itself, gradient and two moments in float32, and a copy in bfloat16."""
ENGINE = 2
"""Bytes of a weight that the engine holds."""
SHARE = 0.6
"""Of a card's memory, for weights; the rest is for activations."""


def arguments() -> argparse.Namespace:
    """The command line."""
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
    options.add_argument("--gradient-checkpointing", action="store_true", help="in the step")
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


def main() -> None:
    options = arguments()
    import gpu_decoding
    import gpu_learner
    import gpu_step

    measured: dict[str, Callable[[Path, argparse.Namespace, float], dict[str, Any]]] = {
        "learner": gpu_learner.updates,
        "head": gpu_learner.heads,
        "decoding": gpu_decoding.decoding,
        "step": gpu_step.steps,
    }
    with tempfile.TemporaryDirectory() as home:
        folder, layers = make_model(options, Path(home))
        rate = gpu_learner.matrix_rate(options.device, options.dtype)
        print(f"{options.shape} with {layers} layers, {options.dtype}, {options.device}; ", end="")
        print(f"matrix rate: {rate / 1e12:.3g} tera-operations a second", flush=True)
        tables: dict[str, Any] = {"layers": layers, "matrix_rate": rate}
        for part in options.parts:
            tables |= measured[part](folder, options, rate)
    report.save(options.out, options, tables)


if __name__ == "__main__":
    main()
