"""ModelSize: the counts of a model that memory follows from, read from its folder without loading it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from agent_r1_core.assembly.model_source import find_local_model, model_shape, open_weights
from agent_r1_core.contracts.training import LoraSettings

_LAYER_NAME = re.compile(r"^.*?\.\d+\.")
"""How the names of a layer's tensors begin: `model.layers.7.`."""


@dataclass(frozen=True)
class ModelSize:
    """Counts of parameters, and widths in numbers."""

    parameters: int
    """Of the whole model; tied ones count once."""
    layer: int
    """Of the largest layer."""
    root: int
    """Outside the layers: embeddings, the last norm, the head."""
    head: int
    """Of the head, also if it shares them with the embeddings."""
    matrices: Mapping[str, int]
    """Rows and columns, added up, of each matrix by the name of its layer: a LoRA adapter has rank times as many."""
    layers: int
    hidden: int
    intermediate: int
    """Width of a layer's feed-forward part."""
    heads: int
    kv_heads: int
    head_size: int

    @classmethod
    def of_model(cls, name: str) -> ModelSize | None:
        """As `of_folder`, of the model that `model.name` would name; None also where it is not on this machine.

        Raises:
            ModelError, RunError: as `find_local_model`.
        """
        source = find_local_model(name)
        return None if source is None else cls.of_folder(source.folder)

    @classmethod
    def of_folder(cls, folder: Path) -> ModelSize | None:
        """The size of a Hugging Face folder; None if its weights are not safetensors or its shape is unusual.

        Raises:
            ModelError: config.json, or a file of weights, cannot be read.
        """
        shape = model_shape(folder)
        wanted = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size")
        parts, matrices = Counter[str](), dict[str, int]()
        for file in sorted(folder.glob("*.safetensors")):
            for name, lengths in _tensors(file):
                layer = _LAYER_NAME.match(name)
                parts[layer.group() if layer else ""] += prod(lengths)
                if len(lengths) == 2:
                    matrices[name.removesuffix(".weight")] = sum(lengths)
        if not parts or not all(isinstance(shape.get(key), int) for key in wanted):
            return None
        layers, hidden, heads, vocabulary = (int(shape[key]) for key in wanted)
        return cls(
            parameters=parts.total(),
            layer=max((count for name, count in parts.items() if name), default=0),
            root=parts[""],
            head=vocabulary * hidden,
            matrices=matrices,
            layers=layers,
            hidden=hidden,
            intermediate=int(shape.get("intermediate_size") or 4 * hidden),
            heads=heads,
            kv_heads=int(shape.get("num_key_value_heads") or heads),
            head_size=int(shape.get("head_dim") or hidden // heads),
        )

    def sides(self, lora: LoraSettings) -> int:
        """Rows and columns of the matrices that get adapters, added up."""
        chosen = lora.targets_of if lora.target_modules else _LAYER_NAME.match
        return sum(sides for name, sides in self.matrices.items() if chosen(name))

    def unknown_targets(self, lora: LoraSettings) -> list[str]:
        """Those of `model.lora.target_modules` that are the name of no matrix."""
        known = {target for name in self.matrices for target in lora.targets_of(name)}
        return [target for target in lora.target_modules if target not in known]

    @property
    def kv_width(self) -> int:
        """Numbers that a token has in the KV cache, over all layers."""
        return 2 * self.layers * self.kv_heads * self.head_size


def _tensors(file: Path) -> Iterator[tuple[str, list[int]]]:
    """Names and shapes of the tensors in a safetensors file; reads only its header."""
    with open_weights(file) as tensors:
        for name in tensors.keys():  # noqa: SIM118
            yield name, tensors.get_slice(name).get_shape()
