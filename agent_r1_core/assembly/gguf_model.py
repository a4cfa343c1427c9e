"""Makes a plain Hugging Face folder out of a GGUF file, once: it is kept in the cache under the file's sha256.

The weights are written in float32, whatever the file packs them in. A file is refused of which a part would be lost:
transformers passes over tensors that its model has no place for, and cuts text by GPT-2's rule where it does not know
the file's own.
"""

from __future__ import annotations

import fcntl
import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from agent_r1_core.assembly.gguf_header import GgufHeader
from agent_r1_core.errors import ModelError, RunError
from agent_r1_core.folders import cache_dir
from agent_r1_core.models import weights_shown
from agent_r1_core.opening import check_regular, open_to_read
from agent_r1_core.runs.files import clean_leftovers, write_folder, write_json
from agent_r1_core.runs.lock import FileLock
from agent_r1_core.work import working

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ABOUT = "gguf.json"
"""Says in the folder which file it stems from; a run keeps it with the model's other files."""
_GPT2, _SINGLE_DIGITS = frozenset({"gpt-2", "mpt", "olmo", "phi-2"}), frozenset({"refact", "smollm", "starcoder"})
"""Names of rules by which text is cut before tokens are merged (`tokenizer.ggml.pre`), as llama.cpp defines them."""


@dataclass(frozen=True)
class GgufModel:
    file: Path
    sha256: str
    folder: Path


def open_gguf(file: Path) -> GgufModel:
    """The folder of a GGUF file, made unless the cache holds it; other processes wait while one makes it.

    Raises:
        ModelError: the file cannot be read as a model, or the cache cannot be written.
    """
    try:
        with open_to_read(file) as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{file} cannot be read ({error.strerror}); give a GGUF file that is there") from error
    place = cache_dir() / "gguf" / digest
    folder = place / "model"
    if folder.is_dir():
        return GgufModel(file, digest, folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        with FileLock(place / ".lock", writing=True) as lock:
            lock.take(fcntl.LOCK_EX)  # while one process makes the folder, others wait
            if not folder.is_dir():
                clean_leftovers(place)
                model, tokenizer = _read(file)
                write_folder(folder, lambda target: _write(target, model, tokenizer, file.name, digest))
    except (OSError, RunError) as error:
        raise ModelError(
            f"the model of {file} cannot be kept in {place} ({error}); free space or allow writing there, or set "
            "AGENT_R1_CACHE to another folder"
        ) from error
    return GgufModel(file, digest, folder)


def _read(file: Path) -> tuple[PreTrainedModel, Any]:
    """The model in float32, and its tokenizer; raises a ModelError if transformers cannot read all of it."""
    if find_spec("gguf") is None:
        raise ModelError(f"{file} needs the package gguf; install it: pip install 'agent-r1[gguf]'")
    with working(f"reading {file.name} for the first time"), TemporaryDirectory(prefix="agent-r1-") as alone:
        header = GgufHeader.read(file)
        _check_tokenizer(file, header)
        link = Path(alone, "model.gguf")  # in a folder of its own, since transformers also reads what lies beside it
        link.symlink_to(file.absolute())
        try:
            return _load(link, header)
        except ModelError as error:
            raise ModelError(f"{file} {error}") from error
        except Exception as error:  # what is inconsistent makes transformers raise almost anything
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            raise ModelError(
                f"{file} cannot be read as a causal language model of architecture {header.architecture!r} "
                f"({reason.replace(str(link), file.name)}); give another file, or the model's Hugging Face folder"
            ) from error


def _check_tokenizer(file: Path, header: GgufHeader) -> None:
    kind, rule = header.values.get("tokenizer.ggml.model"), header.values.get("tokenizer.ggml.pre")
    if kind is None or "tokenizer.ggml.tokens" not in header.arrays:
        raise ModelError(f"{file} holds no tokenizer; give one with a tokenizer, or the model's Hugging Face folder")
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    if kind == "gpt2" and rule not in _GPT2 | _SINGLE_DIGITS | GGUF_PRE_TOKENIZER_SPLITS.keys():
        raise ModelError(
            f"{file} cuts text by the rule {rule!r} before it makes tokens, which is not known here: the model would "
            "read other tokens than it learned; give the model's Hugging Face folder"
        )


def _load(file: Path, header: GgufHeader) -> tuple[PreTrainedModel, Any]:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.quantization_config import GgufConfig

    options: dict[str, Any] = {"gguf_file": file.name, "trust_remote_code": False}
    _check_shape(header)
    check_regular(file)
    config: Any = AutoConfig.from_pretrained(file.parent, **options)
    config = type(config).from_dict(_shortest(config.to_dict()))
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32, trust_remote_code=False)
    held, wanted = sum(header.tensors.values()), sum(tensor.numel() for tensor in model.parameters())
    if held != wanted:
        raise ModelError(
            f"has tensors of {held:,} numbers, and transformers' {type(model).__name__} of that configuration has "
            f"{wanted:,}, so a part would be lost; give the model's Hugging Face folder"
        )
    tokenizer: Any = AutoTokenizer.from_pretrained(file.parent, config=config, **options)
    if header.values.get("tokenizer.ggml.pre") in _SINGLE_DIGITS:
        _cut_into_digits(tokenizer)
    with weights_shown("unpacking its weights"):
        read: Any = AutoModelForCausalLM.from_pretrained(
            file.parent, config=config, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True), **options
        )
    # A model that was read from GGUF refuses to be saved; this one was not.
    model.load_state_dict(read.state_dict(), assign=True)
    model.tie_weights()
    model.generation_config = read.generation_config
    return model, tokenizer


def _check_shape(header: GgufHeader) -> None:
    """Refuse more layers than there can be, since each is made before tensors are compared; and what is not read."""
    layers = header.values.get(f"{header.architecture}.block_count", 0)
    if not isinstance(layers, int) or layers > len(header.tensors):
        raise ModelError(f"claims {layers} layers and has {len(header.tensors)} tensors; copy the file again")
    scaling = header.values.get(f"{header.architecture}.rope.scaling.type", "none")
    if scaling != "none" and header.architecture != "gpt-oss":
        raise ModelError(
            f"scales positions by {scaling!r}, which transformers does not read from such a file; give the model's "
            "Hugging Face folder"
        )


def _shortest(value: Any) -> Any:
    """A configuration with the decimals that were meant: GGUF keeps 1e-05 in 32 bits, read as 9.999999747378752e-06."""
    if isinstance(value, dict):
        return {key: _shortest(item) for key, item in value.items()}
    if isinstance(value, float) and float(np.float32(value)) == value:
        return float(str(np.float32(value)))
    return value


def _cut_into_digits(tokenizer: Any) -> None:
    """Let each digit be a piece of its own; transformers takes GPT-2's rule, which reads spaces before it otherwise."""
    from tokenizers import pre_tokenizers

    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )


def _write(target: Path, model: PreTrainedModel, tokenizer: Any, name: str, digest: str) -> None:
    with weights_shown("writing them to the cache"):
        model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    write_json(target / ABOUT, {"file": name, "sha256": digest})
