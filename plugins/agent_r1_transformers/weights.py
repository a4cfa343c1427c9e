"""Loading the model of an engine, and new weights into it; names and shapes are checked before anything is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from agent_r1_core.errors import EngineError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from agent_r1_core.contracts.engine import EngineModel

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def load_model(model: EngineModel) -> PreTrainedModel:
    """The engine's own copy of the model, in its dtype and on its device, ready for inference.

    Raises:
        EngineError: the folder, dtype or device cannot be used.
    """
    from transformers import AutoModelForCausalLM

    if model.dtype not in DTYPES:
        raise EngineError(
            f"the transformers engine cannot compute in dtype {model.dtype!r}; choose one of {', '.join(DTYPES)}"
        )
    try:
        device = torch.device(model.device)
        with _quiet():
            module: Any = AutoModelForCausalLM.from_pretrained(model.folder, dtype=DTYPES[model.dtype])
        return module.to(device).eval().requires_grad_(False)
    except (OSError, ValueError, KeyError, RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EngineError(
            f"the transformers engine cannot load the model in {model.folder} on {model.device} ({reason}); "
            "give a folder with a decoder-only model, and a device that this machine has"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bar of transformers for loading: the run narrates for itself."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def vocabulary_size(module: PreTrainedModel) -> int:
    """Ids that the model can read: rows of its embedding."""
    embedding: Any = module.get_input_embeddings()
    return int(embedding.num_embeddings)


def copy_weights(module: PreTrainedModel, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into the module, converted to its dtype.

    A tied weight may come under any one of its names, or under several with equal values. Persistent buffers may be
    left out. Nothing is written unless everything fits.

    Raises:
        EngineError: a name is unknown or missing, a shape differs, or tied names carry different values.
    """
    known = module.state_dict(keep_vars=True)
    _check_names(known, weights)
    given: dict[int, str] = {}
    for name, value in weights.items():
        _check_shape(name, known[name], value)
        twin = given.setdefault(known[name].data_ptr(), name)
        if twin != name and weights[twin].data_ptr() != value.data_ptr() and not torch.equal(weights[twin], value):
            raise EngineError(
                f"new weights give different values for {twin} and {name}, which the engine's model ties together; "
                "send one of them, or serve a model whose configuration does not tie them"
            )
    _check_complete(known, given)
    with torch.no_grad():
        for name in given.values():
            known[name].copy_(weights[name])


def _check_names(known: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    unknown = [name for name in weights if name not in known]
    if unknown:
        near = get_close_matches(unknown[0], known, 1)
        hint = f" (nearest name: {near[0]})" if near else ""
        raise EngineError(
            f"new weights have {len(unknown)} unknown names, first {unknown[0]}{hint}; "
            "send the names of the Hugging Face model that the engine serves"
        )


def _check_shape(name: str, target: Tensor, value: Tensor) -> None:
    if target.shape != value.shape:
        raise EngineError(
            f"new weight {name} has shape {list(value.shape)} where the engine's model has {list(target.shape)}; "
            "send weights of the same model"
        )


def _check_complete(known: Mapping[str, Tensor], given: Mapping[int, str]) -> None:
    missing = [
        name
        for name, tensor in known.items()
        if isinstance(tensor, torch.nn.Parameter) and tensor.data_ptr() not in given
    ]
    if missing:
        raise EngineError(
            f"new weights lack {len(missing)} of the model's parameters, first {missing[0]}; send all of them"
        )
