"""New weights: checked against the folder that is served, and handed to vLLM in memory or through a file."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, equal

from agent_r1_core.errors import EngineError

_HEAD = "lm_head.weight"


class KnownWeights:
    """Names and shapes of a folder's weights; vLLM itself would take a part of them without a word."""

    def __init__(self, folder: str) -> None:
        """Read the headers of the folder's safetensors files.

        Raises:
            EngineError: the folder has none, or one that cannot be read.
        """
        self._shapes: dict[str, tuple[int, ...]] = {}
        files = sorted(Path(folder).glob("*.safetensors"))
        if not files:
            raise EngineError(f"{folder} has no safetensors file with weights; give a Hugging Face model folder")
        try:
            self._tied = bool(json.loads((Path(folder) / "config.json").read_text("utf-8")).get("tie_word_embeddings"))
            for file in files:
                with safe_open(file, "pt") as tensors:
                    for name in tensors.keys():  # noqa: SIM118
                        self._shapes[name] = tuple(tensors.get_slice(name).get_shape())
        except (OSError, ValueError, SafetensorError) as error:
            raise EngineError(f"the model in {folder} cannot be read ({error}); give a whole model folder") from error

    def checked(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights to load: all of the model's; of a tied pair, the embedding.

        Raises:
            EngineError: a name is unknown or missing, a shape differs, or tied names carry different values.
        """
        given = dict(weights)
        if self._tied:
            self._drop_tied_head(given)
        unknown = [name for name in given if name not in self._shapes]
        if unknown:
            near = get_close_matches(unknown[0], self._shapes, 1)
            hint = f" (nearest name: {near[0]})" if near else ""
            raise EngineError(
                f"new weights have {len(unknown)} unknown names, first {unknown[0]}{hint}; "
                "send the names of the Hugging Face model that the engine serves"
            )
        for name, value in given.items():
            if tuple(value.shape) != self._shapes[name]:
                raise EngineError(
                    f"new weight {name} has shape {list(value.shape)} where the engine's model has "
                    f"{list(self._shapes[name])}; send weights of the same model"
                )
        missing = [name for name in self._shapes if name not in given and not (self._tied and name == _HEAD)]
        if missing:
            raise EngineError(
                f"new weights lack {len(missing)} of the model's parameters, first {missing[0]}; send all of them"
            )
        return given

    def _drop_tied_head(self, given: dict[str, Tensor]) -> None:
        head = given.pop(_HEAD, None)
        twin = next((name for name in given if name.endswith("embed_tokens.weight")), None)
        if head is None or twin is None or head.data_ptr() == given[twin].data_ptr():
            return
        if not equal(head, given[twin]):
            raise EngineError(
                f"new weights give different values for {twin} and {_HEAD}, which the engine's model ties together; "
                "send one of them, or serve a model whose configuration does not tie them"
            )


@contextmanager
def handed_over(weights: Mapping[str, Tensor]) -> Iterator[str]:
    """A safetensors file with the weights, in memory where the system offers that; removed at the end."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="agent-r1-", dir=memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    ) as folder:
        path = Path(folder) / "weights.safetensors"
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}, path)
        yield str(path)
