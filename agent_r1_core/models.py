"""Loads causal language models of transformers, for the learner and for engines that compute in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_r1_core.errors import ModelError

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PreTrainedModel


def load_model(folder: str | Path, dtype: torch.dtype, device: str = "cpu") -> PreTrainedModel:
    """The model of a Hugging Face folder, on `device`, with every tensor in memory of its own.

    Args:
        device: on `meta` no weights are read: tensors have shapes and no numbers.

    Raises:
        ModelError: the folder holds no causal language model, or only a part of its weights, or the device cannot be
            used.
    """
    try:
        model, missing = _skeleton(folder, dtype) if device == "meta" else _read(folder, dtype, device)
    except Exception as error:  # a damaged configuration makes transformers raise almost anything
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"no causal language model can be loaded from {folder} on {device} ({reason}); "
            "give a folder in Hugging Face format, and a device that this machine has"
        ) from error
    if missing:
        more = f" and {len(missing) - 1} more of the model's tensors" if len(missing) > 1 else ""
        raise ModelError(f"the weights in {folder} lack {missing[0]}{more}; copy all files of the model there")
    copy_tensors(model)
    return model


def _read(folder: str | Path, dtype: torch.dtype, device: str) -> tuple[PreTrainedModel, list[str]]:
    """The model, and the names of the tensors that its files lack."""
    from transformers import AutoModelForCausalLM

    with _no_progress_bar():
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=dtype, trust_remote_code=False, output_loading_info=True
        )
    model, report = loaded
    return model.to(device), sorted(report["missing_keys"])


def _skeleton(folder: str | Path, dtype: torch.dtype) -> tuple[PreTrainedModel, list[str]]:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=False)
    return model, []


def copy_tensors(model: nn.Module) -> None:
    """Copy each parameter and buffer that is on the CPU into memory of its own; tied ones stay tied.

    Tensors from a safetensors file are views into it. Their alignment follows from the length of the file's header, and
    CPU kernels may differ in the last bit between alignments: a run that is resumed from another file would not repeat
    exactly (LAW 10).
    """
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.device.type == "cpu":
            tensor.data = tensor.data.clone()


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """Hide the progress bar of transformers; the run has its own."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
