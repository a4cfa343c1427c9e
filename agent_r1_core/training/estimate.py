"""Estimates training memory from the model's shape; measures nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_r1_core.training.model_source import find_local_model, model_shape

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig

_GIB = 2**30
_STATE = 16
"""Bytes per trained parameter: float32 weight, gradient and two AdamW moments."""
_LAYER = 18
"""Activations per token that a layer keeps for the backward pass, in hidden sizes."""


def estimate_memory(resolved: ResolvedConfig) -> list[str]:
    """Lines about memory in GiB, one per use.

    Downloads nothing: a hub model that is not in the hub's cache has no estimate.

    Raises:
        ModelError: the name is a folder that holds no model, or one whose configuration cannot be read.
    """
    config = resolved.config
    source = find_local_model(config.model.name)
    if source is None or not (source.folder / "config.json").is_file():
        return [f"memory: no estimate, since {config.model.name} is not on this machine yet; training downloads it"]
    folder = source.folder
    shape = model_shape(folder)
    files = list(folder.glob("*.safetensors"))
    if not files or "num_hidden_layers" not in shape:
        return ["memory: no estimate for this model (its weights are not safetensors, or its shape is unusual)"]
    parameters = sum(_elements(file) for file in files)
    algorithm = resolved.make("algorithm", config.algorithm)
    roles = algorithm.roles()
    trained = parameters * (2 if "critic" in roles else 1)
    frozen = parameters if "reference" in roles and config.model.lora is None else 0
    width = 2 if config.model.dtype == "bfloat16" else 4
    heads = shape.get("num_key_value_heads", shape["num_attention_heads"])
    per_token = 2 * shape["num_hidden_layers"] * heads * (shape["hidden_size"] // shape["num_attention_heads"]) * width
    episodes = min(config.engine.config.max_episodes, config.training.tasks_per_step * config.training.samples_per_task)
    cache = per_token * episodes * config.env.config.max_tokens
    kept = _kept_activations(shape["num_hidden_layers"], config.model.gradient_checkpointing)
    activations = config.training.max_tokens_per_microbatch * shape["hidden_size"] * kept * width
    adapters = " (an upper bound: adapters train fewer)" if config.model.lora is not None else ""
    uses = {
        f"weights, gradients and optimiser of {trained / 1e6:.1f} M trained parameters{adapters}": trained * _STATE,
        "the engine's copy of the weights": parameters * width,
        f"the reference's {frozen / 1e6:.1f} M weights": frozen * 4,
        f"keys and values of {episodes} episodes, at most": cache,
        "activations of one micro-batch, about": activations,
    }
    lines = [f"memory: {size / _GIB:8.2f} GiB  {what}" for what, size in uses.items() if size]
    return [*lines, f"memory: {sum(uses.values()) / _GIB:8.2f} GiB  in total"]


def _kept_activations(layers: int, recomputed: bool) -> int:
    """Activations per token that wait for the backward pass, in hidden sizes: those of all layers, or their inputs and
    those of the one layer that is being recomputed."""
    return layers + _LAYER if recomputed else layers * _LAYER


def _elements(file: object) -> int:
    """Number of elements in a safetensors file; reads only its header."""
    from math import prod

    from safetensors import safe_open

    with safe_open(str(file), framework="np") as tensors:
        return sum(prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118
