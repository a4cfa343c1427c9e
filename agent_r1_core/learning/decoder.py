"""Hidden states of packed prefix trees, from any decoder of transformers; the common ground of policy and critic.

Whether an architecture packs exactly is tried out when it is wrapped, on a few tokens. One that does not (recurrent
state, own attention, no position ids) runs one sequence at a time, which is slower, and says so in the log.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from agent_r1_core.learning.attention import NAME, packed_forward
from agent_r1_core.learning.packing import PrefixForest, Tree

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

    def hidden(self, tree: Tree) -> Tensor:
        """Hidden states [computed tokens, width] after the last layer and its norm."""
        wanted = self.training_mode and torch.is_grad_enabled()
        if self.module.training != wanted:
            self.module.train(wanted)
        tree = _on(tree, self.device)
        with self.precision():
            return _packed_hidden(self.module, tree) if self.packs else _hidden_by_span(self.module, tree)


def _on(tree: Tree, device: torch.device) -> Tree:
    return replace(tree, ids=tree.ids.to(device), positions=tree.positions.to(device))


def switch_off_dropout(module: nn.Module) -> None:
    """Set every dropout of a model to 0: the learner's log-probs must be the engine's (LAW 2)."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        if isinstance(getattr(part, "attention_dropout", None), float):
            part.attention_dropout = 0.0  # type: ignore[assignment]


def _packed_hidden(module: PreTrainedModel, tree: Tree) -> Tensor:
    """No attention mask and no cache: with either, transformers would let packed sequences see one another."""
    with packed_forward():
        out = module(
            input_ids=tree.ids[None],
            position_ids=tree.positions[None],
            attention_mask=None,
            use_cache=False,
            spans=tree.spans,
        )
    return out.last_hidden_state[0]


def _hidden_by_span(module: PreTrainedModel, tree: Tree) -> Tensor:
    """Every span by a pass of its own over its whole sequence so far."""
    parts = tree.ids.split([span.length for span in tree.spans])
    paths = [torch.cat([parts[one] for one in (*span.above, number)]) for number, span in enumerate(tree.spans)]
    return torch.cat([_plain_hidden(module, p)[-s.length :] for p, s in zip(paths, tree.spans, strict=True)])


def _plain_hidden(module: PreTrainedModel, ids: Tensor) -> Tensor:
    return module(input_ids=ids[None], use_cache=False).last_hidden_state[0]


@torch.no_grad()
def _packs_exactly(module: PreTrainedModel) -> bool:
    """Compare packed sequences, two of which begin alike, with the same ones alone, under the model's own attention."""
    device = next(module.parameters()).device
    vocabulary = int(module.get_input_embeddings().num_embeddings)  # type: ignore[arg-type]
    ids = ((torch.arange(12) * 7 + 3) % vocabulary).tolist()
    forest = PrefixForest()
    for sequence in (ids[:7], ids[:4] + ids[9:], ids[7:]):
        forest.add(sequence, 0)
    tree = _on(forest.build()[0], device)
    expected = _hidden_by_span(module, tree)
    own = module.config._attn_implementation
    try:
        module.set_attn_implementation(NAME)
        packed = _packed_hidden(module, tree)
        tolerance = 1e-3 if expected.dtype == torch.float32 else 5e-2
        if module.config._attn_implementation == NAME and torch.allclose(packed, expected, tolerance, tolerance):
            return True
        why = "its packed sequences see one another"
    except (TypeError, ValueError, RuntimeError, KeyError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
    module.set_attn_implementation(own)
    _log.warning("%s cannot be packed (%s); the learner runs one sequence at a time", type(module).__name__, why)
    return False
