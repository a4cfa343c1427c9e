"""Loading a model of the transformers library for an engine that computes in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from agent_r1_core.errors import EngineError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from agent_r1_core.contracts.engine import EngineModel

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def load_module(model: EngineModel) -> PreTrainedModel:
    """The engine's own copy of the model, in its dtype and on its device, ready for inference.

    Raises:
        EngineError: the folder, dtype or device cannot be used.
    """
    from transformers import AutoModelForCausalLM

    if model.dtype not in DTYPES:
        raise EngineError(f"the engine cannot compute in dtype {model.dtype!r}; choose one of {', '.join(DTYPES)}")
    try:
        device = torch.device(model.device)
        with _quiet():
            module: Any = AutoModelForCausalLM.from_pretrained(model.folder, dtype=DTYPES[model.dtype])
        return module.to(device).eval().requires_grad_(False)
    except (OSError, ValueError, KeyError, RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EngineError(
            f"the engine cannot load the model in {model.folder} on {model.device} ({reason}); "
            "give a folder with a decoder-only model, and a device that this machine has"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the progress bar of transformers; the run has its own."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def vocabulary_size(module: PreTrainedModel) -> int:
    """Number of ids that the model can read: the rows of its embedding."""
    embedding: Any = module.get_input_embeddings()
    return int(embedding.num_embeddings)
