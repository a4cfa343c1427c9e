"""Hidden states of packed prefix trees, from any decoder of transformers; the common ground of policy and critic.

Whether an architecture packs exactly is tried out when it is wrapped, on a few tokens. One that does not (recurrent
state, own attention, no position ids) runs one sequence at a time, which is slower, and says so in the log. On CUDA it
is tried out as well whether one attention kernel computes a whole tree, and whether layers can take compiled kernels.
Of several ranks the first one tries packing, which alone has weights, and every one the kernels, on the device where it
will compute.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from agent_r1_core.contracts.training import Recomputation
from agent_r1_core.devices import on_device
from agent_r1_core.errors import first_line
from agent_r1_core.learning.attention import NAME, TreeMask, packed_forward
from agent_r1_core.learning.fused import fuse, separate
from agent_r1_core.learning.packing import PrefixForest, Tree
from agent_r1_core.learning.ranks import Ranks, shard
from agent_r1_core.learning.recomputation import recompute

_log = logging.getLogger(__name__)
_COMPILED_ON = "cuda"
"""Where it is worth a trial what torch compiles."""
_NO_FLEX = "FlexAttention cannot be used (%s); attention takes a kernel for each span"
_NOT_FUSED = "layers take torch's own operations, since what it compiles for them cannot be used (%s)"


class Decoder:
    """Runs the decoder of a model over packed rows.

    Args:
        module: the decoder, without a head; on the device `meta` nothing is tried out before `shard`.
        dtype: `float32` or `bfloat16`, of the computation; weights stay as they are.
        recomputation: what backward passes compute again.
        training_mode: whether passes with gradient run in training mode (adapters with dropout need it, and so does
            recomputation); all other dropout is switched off for good, since it would break LAW 2.
    """

    def __init__(
        self,
        module: PreTrainedModel,
        dtype: str,
        recomputation: Recomputation = "none",
        training_mode: bool = False,
    ) -> None:
        self.module = module
        self.dtype = dtype
        self.recomputation: Recomputation = recomputation
        self.training_mode = training_mode or recomputation != "none"
        recompute(module, recomputation)
        self.module.eval()
        self._device: torch.device | None = None
        self.packs = self.device.type != "meta" and _packs_exactly(module)
        self.tree_mask: type[TreeMask] | None = None
        """Lets one attention kernel compute a whole tree; None: one for each span."""
        self.fused = False
        """Whether the layers compute by kernels."""
        if self.packs and self.device.type == _COMPILED_ON:
            self.tree_mask, self.fused = _one_kernel(self), _fused(self)
        else:
            self._fuse_on_cpu()

    def shard(self, network: nn.Module, ranks: Ranks) -> None:
        """Leave this rank its share of a network that has this decoder. It packs if the first rank does, and decides
        for the ranks' device, where the weights are about to move."""
        self.packs, self.tree_mask = ranks.first(self.packs), None
        self._device = torch.device(ranks.device)
        if self.packs:
            self.module.set_attn_implementation(NAME)
        separate(self.module)
        self.fused = False
        if self.packs and self._device.type == _COMPILED_ON:
            tried = _tried_on(self, ranks.device)
            if tried is not None:
                self.tree_mask = tried.tree_mask
                self.fused = tried.fused and fuse(self.module, self._device)
        else:
            self._fuse_on_cpu()
        shard(network, self._layers() if self.packs else (), self.dtype == "bfloat16", ranks)

    def _fuse_on_cpu(self) -> None:
        if (self.device.type, self.dtype) == ("cpu", "float32"):
            self.fused = fuse(self.module, self.device)

    def _layers(self) -> list[nn.Module]:
        """The layers. Where the decoder runs a sequence at a time none may travel alone: ranks would gather them
        different numbers of times."""
        layers = getattr(self.module, "layers", None)
        if isinstance(layers, nn.ModuleList):
            return list(dict.fromkeys(layers))
        names = set(self.module._no_split_modules or ())
        return [module for module in self.module.modules() if type(module).__name__ in names]

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._device or next(self.module.parameters()).device

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
        with self.precision():
            if self.tree_mask is None:
                tree = _on(tree, self.device)
                return _packed_hidden(self.module, tree) if self.packs else _hidden_by_span(self.module, tree)
            mask = self.tree_mask(tree, self.device)
            return _packed_hidden(self.module, mask.tree, mask)[: len(tree.ids)]


def _on(tree: Tree, device: torch.device) -> Tree:
    return replace(tree, ids=on_device(tree.ids, device), positions=on_device(tree.positions, device))


def switch_off_dropout(module: nn.Module) -> None:
    """Set every dropout of a model to 0: the learner's log-probs must be the engine's (LAW 2)."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        if isinstance(getattr(part, "attention_dropout", None), float):
            part.attention_dropout = 0.0  # type: ignore[assignment]


def _packed_hidden(
    module: PreTrainedModel, tree: Tree, mask: TreeMask | None = None, embeddings: Tensor | None = None
) -> Tensor:
    """No attention mask and no cache: with either, transformers would let packed sequences see one another.

    Args:
        mask: lets one attention kernel compute the whole tree.
        embeddings: [tokens, width], in place of those of the ids.
    """
    given: dict[str, Any] = {} if mask is None else {"tree_mask": mask}
    given |= {"input_ids": tree.ids[None]} if embeddings is None else {"inputs_embeds": embeddings[None]}
    with packed_forward():
        out = module(**given, position_ids=tree.positions[None], attention_mask=None, use_cache=False, spans=tree.spans)
    return out.last_hidden_state[0]


def _hidden_by_span(module: PreTrainedModel, tree: Tree) -> Tensor:
    """Every span by a pass of its own over its whole sequence so far."""
    parts = tree.ids.split([span.length for span in tree.spans])
    paths = [torch.cat([parts[one] for one in (*span.above, number)]) for number, span in enumerate(tree.spans)]
    passes = [module(input_ids=path[None], use_cache=False).last_hidden_state[0] for path in paths]
    return torch.cat([hidden[-span.length :] for hidden, span in zip(passes, tree.spans, strict=True)])


@torch.no_grad()
def _packs_exactly(module: PreTrainedModel) -> bool:
    """Compare packed sequences, two of which begin alike, with the same ones alone, under the model's own attention."""
    tree = _on(_tried(module), next(module.parameters()).device)
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


def _tried_on(decoder: Decoder, device: str) -> Decoder | None:
    """One with drawn weights and a layer for each kind of attention, on a device: it has tried what can be used."""
    config: Any = copy.deepcopy(decoder.module.config)
    kinds = list(dict.fromkeys(getattr(config, "layer_types", None) or ()))
    config.num_hidden_layers = max(len(kinds), 1)
    if kinds:
        config.layer_types = kinds
    try:
        with torch.random.fork_rng(), torch.device(device):
            module = type(decoder.module)(config).requires_grad_(False)
        return Decoder(module, decoder.dtype, decoder.recomputation)
    except Exception as error:  # a configuration may want more than its layers
        _log.warning(_NO_FLEX, _said(error))
        return None


def _one_kernel(decoder: Decoder) -> type[TreeMask] | None:
    """What lets one attention kernel compute a tree, where it compiles and agrees with a kernel for each span, with
    and without gradient; else None. All that an update needs is compiled here."""
    try:
        if _agree(_outcomes(decoder, one_kernel=True), _outcomes(decoder, one_kernel=False), decoder.dtype):
            return TreeMask
        why = "its results differ"
    except Exception as error:  # the compiler's own errors are of many kinds
        why = _said(error)
    _log.warning(_NO_FLEX, why)
    return None


def _fused(decoder: Decoder) -> bool:
    """Let the layers compute by kernels, where these compile and agree with torch's operations; whether they do."""
    one_kernel = decoder.tree_mask is not None
    expected = _outcomes(decoder, one_kernel)
    try:
        if not fuse(decoder.module, decoder.device):
            return False
        if _agree(_outcomes(decoder, one_kernel), expected, decoder.dtype):
            return True
        why = "its results differ"
    except Exception as error:
        why = _said(error)
    separate(decoder.module)
    _log.warning(_NOT_FUSED, why)
    return False


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}"


def _outcomes(decoder: Decoder, one_kernel: bool) -> tuple[Tensor, ...]:
    """Of a small tree: hidden states and the gradient of the embeddings, and hidden states without gradient."""
    module, tree = decoder.module, _tried(decoder.module)
    # Sizes that are equal by chance would be compiled as one; hardly a model has eleven heads.
    mask = TreeMask(tree, decoder.device, blocks=11)
    given = mask if one_kernel else None
    with decoder.precision():
        embeddings = module.get_input_embeddings()(mask.tree.ids).detach().requires_grad_()
        module.train(decoder.training_mode)
        found = _with_gradient(embeddings, lambda: _packed_hidden(module, mask.tree, given, embeddings))
        module.eval()
        with torch.no_grad():
            plain = _packed_hidden(module, mask.tree, given)
    return tuple(part[: len(tree.ids)] for part in (*found, plain))


@torch.enable_grad()
def _with_gradient(embeddings: Tensor, compute: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
    """Hidden states, and the gradient of their product with fixed numbers for the embeddings."""
    hidden = compute()
    numbers = torch.linspace(-1, 1, hidden.numel(), device=hidden.device).view_as(hidden)
    return hidden.detach(), torch.autograd.grad((hidden * numbers).sum(), embeddings)[0]


def _tried(module: PreTrainedModel) -> Tree:
    """A small tree with two sequences that begin alike."""
    embeddings: Any = module.get_input_embeddings()  # which an adapter may wrap
    vocabulary = int(embeddings.weight.shape[0])
    ids = ((torch.arange(12) * 7 + 3) % vocabulary).tolist()
    forest = PrefixForest()
    for sequence in (ids[:7], ids[:4] + ids[9:], ids[7:]):
        forest.add(sequence, 0)
    return forest.build()[0]


def _agree(found: Sequence[Tensor], expected: Sequence[Tensor], dtype: str) -> bool:
    """Whether the numbers agree as a whole: in bfloat16 single ones need not."""
    tolerance = 1e-3 if dtype == "float32" else 5e-2
    pairs = zip(found, expected, strict=True)
    return all(bool((one - other).float().norm() <= tolerance * other.float().norm()) for one, other in pairs)
