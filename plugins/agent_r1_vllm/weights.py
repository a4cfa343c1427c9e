"""New weights: which ones a served folder holds, and a file that passes tensors to vLLM's processes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from agent_r1_core.engines.weights import DTYPES, KnownWeights
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
def handed_over(weights: Mapping[str, Tensor], dtype: str) -> Iterator[str]:
    """A safetensors file with the weights, removed at the end: in memory, if the system has room for them there.
    Matrices are in the precision of the engine, which would round them itself; vectors are as they came."""
    kinds = {name: DTYPES[dtype] if tensor.dim() > 1 else tensor.dtype for name, tensor in weights.items()}
    rounded = {name: tensor.detach().to("cpu", kinds[name]).contiguous() for name, tensor in weights.items()}
    size = sum(tensor.nbytes for tensor in rounded.values())
    with tempfile.TemporaryDirectory(prefix="agent-r1-", dir=_memory(size)) as folder:
        path = Path(folder) / "weights.safetensors"
        save_file(rounded, path)
        del rounded
        yield str(path)


def _memory(size: int) -> Path | None:
    """Where the system keeps files in memory; None without room for so many bytes: containers often have 64 MiB."""
    memory = Path("/dev/shm")
    if not (memory.is_dir() and os.access(memory, os.W_OK)):
        return None
    return memory if shutil.disk_usage(memory).free > 1.05 * size else None
