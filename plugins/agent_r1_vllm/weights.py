"""New weights: which ones a served folder holds, and a file that passes tensors to vLLM's processes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from agent_r1_core.engines.weights import KnownWeights
from agent_r1_core.errors import EngineError
from agent_r1_core.opening import check_folder, read_json

_HEAD = "lm_head.weight"
_EMBEDDING = "embed_tokens.weight"


def weights_of_folder(folder: str) -> KnownWeights:
    """The weights named in the headers of a folder's safetensors files; vLLM itself would silently load only some.

    Raises:
        EngineError: the folder has no such file, or one that cannot be read.
    """
    files = sorted(Path(folder).glob("*.safetensors"))
    if not files:
        raise EngineError(f"{folder} has no safetensors file with weights; give a Hugging Face model folder")
    shapes: dict[str, list[int]] = {}
    try:
        check_folder(folder, "additional_chat_templates")
        tied = bool(read_json(Path(folder) / "config.json").get("tie_word_embeddings"))
        for file in files:
            with safe_open(file, "pt") as tensors:
                shapes |= {name: tensors.get_slice(name).get_shape() for name in tensors.keys()}  # noqa: SIM118
    except (OSError, ValueError, SafetensorError) as error:
        raise EngineError(f"the model in {folder} cannot be read ({error}); give a whole model folder") from error
    embedding = next((name for name in shapes if name.endswith(_EMBEDDING)), None)
    return KnownWeights(shapes, [(embedding, _HEAD)] if tied and embedding is not None else [])


@contextmanager
def handed_over(weights: Mapping[str, Tensor]) -> Iterator[str]:
    """A safetensors file with the weights, in memory if the system offers that; removed at the end."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="agent-r1-", dir=memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    ) as folder:
        path = Path(folder) / "weights.safetensors"
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}, path)
        yield str(path)
