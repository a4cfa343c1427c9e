"""Weights that do not fit are refused with the name at fault."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from agent_r1_core import EngineError, KnownWeights
from agent_r1_core.engines.weights import copy_weights
from agent_r1_core.testing import tiny_model

EMBEDDING, HEAD, NORM = "model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"


def weights(seed: int = 5) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in tiny_model(seed).named_parameters()}


def without(name: str) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    return lambda good: {other: value for other, value in good.items() if other != name}


FAULTS: dict[str, Callable[[dict[str, Tensor]], dict[str, Tensor]]] = {
    r"1 unknown names, first model.nrm.weight \(nearest name: model.norm.weight\)": (
        lambda good: good | {"model.nrm.weight": good[NORM]}
    ),
    "lack 1 of the model's parameters, first model.norm.weight": without(NORM),
    "lack 1 of the model's parameters, first model.embed_tokens.weight": without(EMBEDDING),
    r"model.norm.weight has shape \[31\] where the engine's model has \[32\]": lambda g: g | {NORM: g[NORM][:-1]},
    "different values for model.embed_tokens.weight and lm_head.weight": lambda g: g | {HEAD: g[EMBEDDING] + 1},
}


@pytest.mark.parametrize("sentence", FAULTS)
def test_weights_that_do_not_fit_are_refused_and_nothing_changes(sentence: str) -> None:
    module, before = tiny_model(), weights(0)
    with pytest.raises(EngineError, match=sentence):
        copy_weights(module, FAULTS[sentence](weights()))
    assert all(torch.equal(value, before[name]) for name, value in module.named_parameters())


def test_a_tied_weight_comes_under_any_of_its_names() -> None:
    """Whoever checks names alone loads it by the first, and buffers may be left out."""
    for names in ((EMBEDDING,), (HEAD,), (HEAD, EMBEDDING)):
        given, module = weights(), tiny_model()
        tied = given.pop(EMBEDDING)
        copy_weights(module, {**given, **{name: tied.clone().double() for name in names}})
        assert all(torch.equal(value, weights()[name]) for name, value in module.named_parameters())
    known = KnownWeights({"in": (2, 3), "bias": (3,), "steps": ()}, ties=[("in", "out")], optional=["steps"])
    checked = known.checked({"bias": torch.zeros(3), "out": torch.ones(2, 3)})
    assert checked.keys() == {"bias", "in"}
    with pytest.raises(EngineError, match="lack 2 of the model's parameters, first in"):
        known.checked({"steps": torch.zeros(())})
