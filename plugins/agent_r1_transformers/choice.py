"""Chooses the fastest decoder that agrees with the model itself, by a trial when the engine starts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch

from agent_r1_core.engines.weights import vocabulary_size
from agent_r1_transformers.decoder import Decoder, SlotDecoder, WholeDecoder, last_logits
from agent_r1_transformers.hugging import CachedDecoder, layer_shapes
from agent_r1_transformers.lean import LeanDecoder, suits
from agent_r1_transformers.linear import packs

if TYPE_CHECKING:
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)

_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 3e-2}
"""Largest accepted ||difference|| / ||logits||; a wrong mask or position gives 0.05 and more."""
_TRIAL_ERRORS = (TypeError, ValueError, RuntimeError, AttributeError, IndexError, KeyError, AssertionError)
"""What model code raises if it does not support explicit positions, a ready mask, or our cache."""


def choose_decoder(module: PreTrainedModel) -> Decoder:
    """The lean decoder if it supports the model, else the cached one, else whole contexts with a warning."""
    why = "its layers keep something other than the keys and values of all tokens"
    shapes = layer_shapes(module)
    if shapes is not None:
        factories: list[Callable[[], SlotDecoder]] = [lambda: CachedDecoder(module, shapes)]
        if suits(module) and len(set(shapes)) == 1:
            packed = [True, False] if packs(module) else [False]
            factories = [*(partial(LeanDecoder, module, shapes, packed=one) for one in packed), *factories]
        for make_decoder in factories:
            try:
                decoder = make_decoder()
                gap = _disagreement(module, decoder)
            except _TRIAL_ERRORS as error:
                why = f"a trial with a ragged cache failed ({type(error).__name__}: {error})"
                continue
            if gap <= _TOLERANCE[module.dtype]:
                return decoder
            why = f"a trial with a ragged cache gave other logits (relative difference {gap:.2g})"
    logger.warning(
        "The transformers engine keeps no cache for %s, because %s: every step reads the whole context anew, which is "
        "right but slow",
        type(module).__name__,
        why,
    )
    return WholeDecoder(module)


def _disagreement(module: PreTrainedModel, decoder: SlotDecoder) -> float:
    """||difference|| / ||logits|| between a decoder and the module, on two rows of different lengths read in chunks."""
    vocabulary = vocabulary_size(module)
    ids = [(7 * place + 3) % vocabulary for place in range(9)]
    contexts = [ids, ids[4:8]]
    expected = last_logits(module, contexts).float()
    decoder.read(0, [0, 0], [contexts[0][:5], contexts[1][:1]])
    decoder.read(0, [5, 1], [contexts[0][5:-1], contexts[1][1:-1]])
    logits = decoder.next_logits(contexts).float()
    return float((logits - expected).norm() / expected.norm().clamp_min(1e-20))
