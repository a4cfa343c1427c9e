"""A model of the transformers library for an engine that computes in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from agent_r1_core.errors import EngineError, ModelError
from agent_r1_core.models import load_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from agent_r1_core.contracts.engine import EngineModel

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def load_module(model: EngineModel) -> PreTrainedModel:
    """The engine's own copy of the model, in its dtype and on its device, ready for inference.

    Raises:
        EngineError: the folder, dtype or device cannot be used.
    """
    if model.dtype not in DTYPES:
        raise EngineError(f"the engine cannot compute in dtype {model.dtype!r}; choose one of {', '.join(DTYPES)}")
    try:
        module: Any = load_model(model.folder, DTYPES[model.dtype], model.device)
    except ModelError as error:
        raise EngineError(str(error)) from error
    return module.eval().requires_grad_(False)


def vocabulary_size(module: PreTrainedModel) -> int:
    """Number of ids that the model can read: the rows of its embedding."""
    embedding: Any = module.get_input_embeddings()
    return int(embedding.num_embeddings)
