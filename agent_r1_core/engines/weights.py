"""A model for an engine that computes in this process; and checks of new weights, before any engine writes one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from agent_r1_core.errors import EngineError, ModelError
from agent_r1_core.models import load_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from agent_r1_core.contracts.engine import EngineModel

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class KnownWeights:
    """Names, shapes and ties of the weights that an engine serves."""

    def __init__(
        self,
        shapes: Mapping[str, Iterable[int]],
        ties: Iterable[Collection[str]] = (),
        optional: Collection[str] = (),
    ) -> None:
        """Describe a model.

        Args:
            shapes: by Hugging Face name; one of several tied names is enough.
            ties: groups of names of one tensor, which is loaded under the first.
            optional: names that may be missing.
        """
        self._shapes = {name: list(shape) for name, shape in shapes.items()}
        self._primary: dict[str, str] = {}
        """For each tied name, the one that its tensor is loaded under."""
        for names in ties:
            first, *others = names
            self._primary |= dict.fromkeys(names, first)
            self._shapes |= dict.fromkeys(others, self._shapes[first])
        self._optional = frozenset(optional)

    @classmethod
    def of_module(cls, module: nn.Module) -> KnownWeights:
        """The weights of a torch module: names that share memory are tied, persistent buffers are optional."""
        state = module.state_dict(keep_vars=True)
        by_address: dict[int, list[str]] = {}
        for name, tensor in state.items():
            by_address.setdefault(tensor.data_ptr(), []).append(name)
        return cls(
            {name: tensor.shape for name, tensor in state.items()},
            [names for names in by_address.values() if len(names) > 1],
            [name for name, tensor in state.items() if not isinstance(tensor, torch.nn.Parameter)],
        )

    def checked(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors to load, each under the name that it is loaded by.

        A tied tensor may come under any of its names, or under several with equal values.

        Raises:
            EngineError: a name is unknown or missing, a shape differs, or tied names carry different values.
        """
        self._check_names(weights)
        sources: dict[str, str] = {}
        for name, value in weights.items():
            self._check_shape(name, value)
            twin = sources.setdefault(self._primary.get(name, name), name)
            if twin != name and weights[twin].data_ptr() != value.data_ptr() and not torch.equal(weights[twin], value):
                raise EngineError(
                    f"new weights give different values for {twin} and {name}, which the engine's model ties together; "
                    "send one of them, or serve a model whose configuration does not tie them"
                )
        needed = [name for name in self._shapes if self._primary.get(name, name) == name and name not in self._optional]
        missing = [name for name in needed if name not in sources]
        if missing:
            raise EngineError(
                f"new weights lack {len(missing)} of the model's parameters, first {missing[0]}; send all of them"
            )
        return {primary: weights[name] for primary, name in sources.items()}

    def _check_names(self, weights: Mapping[str, Tensor]) -> None:
        unknown = [name for name in weights if name not in self._shapes]
        if unknown:
            near = get_close_matches(unknown[0], self._shapes, 1)
            hint = f" (nearest name: {near[0]})" if near else ""
            raise EngineError(
                f"new weights have {len(unknown)} unknown names, first {unknown[0]}{hint}; "
                "send the names of the Hugging Face model that the engine serves"
            )

    def _check_shape(self, name: str, value: Tensor) -> None:
        if list(value.shape) != self._shapes[name]:
            raise EngineError(
                f"new weight {name} has shape {list(value.shape)} where the engine's model has {self._shapes[name]}; "
                "send weights of the same model"
            )


def copy_weights(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a module, converted to its dtype; write nothing unless all of them fit.

    Raises:
        EngineError: they do not fit, as in `KnownWeights.checked`.
    """
    checked, state = KnownWeights.of_module(module).checked(weights), module.state_dict(keep_vars=True)
    with torch.no_grad():
        for name, value in checked.items():
            state[name].copy_(value)


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
