"""Hidden states of packed segments, from any decoder of transformers; the common ground of policy and critic.

Whether an architecture packs exactly is tried out when it is wrapped, on a few tokens. One that does not (recurrent
state, own attention, no position ids) runs one segment at a time, which is slower, and says so in the log.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from agent_r1_core.learning.attention import NAME, packed_forward
from agent_r1_core.learning.packing import Packed

_log = logging.getLogger(__name__)


class Decoder:
    """Runs the decoder of a model over packed rows.

    Args:
        module: the decoder, without a head.
        dtype: `float32` or `bfloat16`, of the computation; weights stay as they are.
        training_mode: whether passes with gradient run in training mode (activation checkpointing and adapters with
            dropout need it); all other dropout is switched off for good, since it would break LAW 2.
    """

    def __init__(self, module: PreTrainedModel, dtype: str, training_mode: bool = False) -> None:
        self.module = module
        self.dtype = dtype
        self.training_mode = training_mode
        self.module.eval()
        self.packs = _packs_exactly(module)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.module.parameters()).device

    def precision(self) -> AbstractContextManager[object]:
        """The context in which forward passes run."""
        if self.dtype == "bfloat16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def hidden(self, packed: Packed) -> Tensor:
        """Hidden states [tokens, width] after the last layer and its norm."""
        wanted = self.training_mode and torch.is_grad_enabled()
        if self.module.training != wanted:
            self.module.train(wanted)
        packed = packed.to(self.device)
        with self.precision():
            if self.packs:
                return _packed_hidden(self.module, packed.ids, packed.positions, packed.boundaries)
            spans = pairwise(packed.boundaries)
            return torch.cat([_plain_hidden(self.module, packed.ids[start:stop]) for start, stop in spans])


def switch_off_dropout(module: nn.Module) -> None:
    """Set every dropout of a model to 0: the learner's log-probs must be the engine's (LAW 2)."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        if isinstance(getattr(part, "attention_dropout", None), float):
            part.attention_dropout = 0.0  # type: ignore[assignment]


def _packed_hidden(module: PreTrainedModel, ids: Tensor, positions: Tensor, boundaries: list[int]) -> Tensor:
    """No attention mask and no cache: with either, transformers would let packed segments see one another."""
    with packed_forward():
        out = module(
            input_ids=ids[None],
            position_ids=positions[None],
            attention_mask=None,
            use_cache=False,
            segment_boundaries=boundaries,
        )
    return out.last_hidden_state[0]


def _plain_hidden(module: PreTrainedModel, ids: Tensor) -> Tensor:
    return module(input_ids=ids[None], use_cache=False).last_hidden_state[0]


@torch.no_grad()
def _packs_exactly(module: PreTrainedModel) -> bool:
    """Compare two packed segments with the same two alone, under the model's own attention."""
    device = next(module.parameters()).device
    vocabulary = int(module.get_input_embeddings().num_embeddings)  # type: ignore[arg-type]
    lengths = (7, 5)
    ids = (torch.arange(12, device=device) * 7 + 3) % vocabulary
    positions = torch.cat([torch.arange(length, device=device) for length in lengths])
    expected = torch.cat([_plain_hidden(module, part) for part in ids.split(lengths)])
    own = module.config._attn_implementation
    try:
        module.set_attn_implementation(NAME)
        found = _packed_hidden(module, ids, positions, [0, 7, 12])
        tolerance = 1e-3 if expected.dtype == torch.float32 else 5e-2
        if module.config._attn_implementation == NAME and torch.allclose(found, expected, tolerance, tolerance):
            return True
        why = "its packed segments see one another"
    except (TypeError, ValueError, RuntimeError, KeyError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
    module.set_attn_implementation(own)
    _log.warning("%s cannot be packed (%s); the learner runs one segment at a time", type(module).__name__, why)
    return False
