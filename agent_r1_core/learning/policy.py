"""The policy: log-probs of chosen tokens of packed sequences, weights by their Hugging Face names, a folder to save to.

Weights are float32 whatever the precision of the computation is, so that small updates are not lost. Activation
checkpointing and LoRA are options. Several ranks hold a policy in shares: then all of them make every call alike.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from agent_r1_core.contracts.training import LoraSettings, Recomputation
from agent_r1_core.devices import on_device
from agent_r1_core.learning.decoder import Decoder, switch_off_dropout
from agent_r1_core.learning.head import Head
from agent_r1_core.learning.lora import MARK, add_lora, check_adapters, merged_weights, replace_dropout
from agent_r1_core.learning.packing import Packed, Tree
from agent_r1_core.learning.ranks import ONE_RANK, Ranks, own_rows, whole
from agent_r1_core.models import load_model


@dataclass(frozen=True)
class TokenLogprobs:
    """What a policy says of some tokens, float32 [k] each, nats."""

    logprobs: Tensor
    entropy: Tensor
    """Of the distribution that the token was drawn from; with gradient where that was asked for."""


class Reference(Protocol):
    """What a KL term compares the policy with: a frozen policy, or the model below the policy's adapters."""

    def logprobs(self, packed: Packed, tokens: Tensor, temperature: float = 1.0) -> TokenLogprobs:
        """Log-probs of packed tokens, as `Policy.logprobs` gives them."""
        ...


class Policy:
    """A causal language model of transformers under training, or frozen as a reference.

    Args:
        module: the model, in float32, or a peft model around it; on the device `meta` it can do nothing before `shard`.
        dtype: `float32` or `bfloat16`, of the computation.
        gradient_checkpointing: what the backward pass computes again, for less memory.

    Raises:
        ModelError: the architecture's logits cannot be computed from its decoder, or this torch cannot recompute
            selectively.
    """

    def __init__(
        self, module: nn.Module, dtype: str = "float32", gradient_checkpointing: Recomputation = "none"
    ) -> None:
        self.module = module
        self.dtype = dtype
        self.gradient_checkpointing = gradient_checkpointing
        self.lora = hasattr(module, "peft_config")
        self.model: PreTrainedModel = module.get_base_model() if self.lora else module  # type: ignore[operator, assignment]
        self._dropout = replace_dropout(module) if self.lora else None
        if not self.lora:
            switch_off_dropout(module)
        self.head = Head(self.model)
        decoder = self.model.get_decoder()
        module.eval()
        if self.model.device.type != "meta":
            self.head.check(self.model, decoder)
        self.decoder = Decoder(decoder, dtype, gradient_checkpointing, training_mode=self.lora)
        self.ranks = ONE_RANK
        self._network = _PolicyNetwork(module, self.decoder, self.head)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        dtype: str = "float32",
        device: str = "cpu",
        lora: LoraSettings | None = None,
        gradient_checkpointing: Recomputation = "none",
        seed: int = 0,
        ranks: Ranks = ONE_RANK,
    ) -> Policy:
        """Load a Hugging Face folder; `seed` draws the adapters of `lora`.

        Args:
            ranks: of several ones only the first loads weights; the others get theirs from it by `shard`.

        Raises:
            ModelError: the folder holds no causal language model that can be trained, or peft is missing.
        """
        device = "meta" if ranks.rank else device
        model = load_model(folder, torch.float32, device)
        switch_off_dropout(model)
        module: nn.Module = add_lora(model, lora, seed) if lora is not None else model
        return cls(module.to(device), dtype, gradient_checkpointing)

    def freeze(self) -> Policy:
        """Let nothing of it learn any more; returns itself, a reference for KL terms."""
        self.module.requires_grad_(False)
        return self

    def shard(self, ranks: Ranks) -> Policy:
        """Leave this rank its share of the first rank's weights, where there are several ranks; returns itself. Copies,
        and critics that begin as one, must be made before."""
        if ranks.share and not self.ranks.share:
            self.ranks = ranks
            self.decoder.shard(self._network, ranks)
        return self

    @property
    def device(self) -> torch.device:
        return self.decoder.device

    def parameters(self) -> Iterator[nn.Parameter]:
        return (parameter for _, parameter in self.named_parameters())

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """What learns, by its name in the model."""
        return (named for named in self.model.named_parameters() if named[1].requires_grad)

    @property
    def drops(self) -> bool:
        """Whether passes with gradient drop parts of what adapters say, so that they are not what the policy says."""
        return self._dropout is not None

    def seed_dropout(self, seed: int, step: int) -> None:
        """Set what the adapters' dropout masks follow from; nothing else in a policy is random."""
        if self._dropout is not None:
            self._dropout.begin(seed, step, self.ranks.rank)

    def logprobs(
        self, packed: Packed, tokens: Tensor, temperature: float = 1.0, entropy_gradient: bool = False
    ) -> TokenLogprobs:
        """Log-probs and entropies of packed tokens: log softmax(logits / temperature) at the token before each.

        Args:
            tokens: long [k], indices into the packed row; on the CPU; none is first in its segment.
            entropy_gradient: whether entropies have a gradient, which costs time and memory.
        """
        if self._dropout is not None and torch.is_grad_enabled():
            self._dropout.passes += 1
        # A token that several sequences share has one log-prob, so it is taken once and handed to each of them.
        nodes, shared = packed.place[tokens].unique(return_inverse=True)
        before = torch.zeros_like(nodes).scatter_(0, shared, packed.place[tokens - 1])
        ids = packed.tree.ids[nodes]
        logprobs, entropy = self._network(packed.tree, before, ids, temperature, entropy_gradient)
        shared = on_device(shared, logprobs.device)
        return TokenLogprobs(logprobs[shared], entropy[shared])

    def base_model(self) -> Reference:
        """The model below the adapters, which there must be, as a reference without weights of its own: the run's
        first model."""
        return _BaseModel(self)

    def each_weight(self, dtype: str = "float32") -> Iterator[tuple[str, Tensor]]:
        """Every tensor by its Hugging Face name, tied ones once, adapters merged; views of the live weights where
        nothing was merged or converted. Several ranks put together one after the other, on their device: all ranks
        must ask for all of them.

        Args:
            dtype: what shares are converted to before they travel to the other ranks.
        """
        return ((name, whole(tensor)) for name, tensor in self._each(dtype))

    def each_share(self, dtype: str) -> Iterator[tuple[str, torch.Size, int, Tensor]]:
        """What this rank holds of every tensor that `each_weight` gives: its name, the shape of the whole, and from
        which row on these rows are. All ranks must ask for all of them; several have no row twice and all together."""
        return ((name, tensor.shape, *own_rows(tensor)) for name, tensor in self._each(dtype))

    def _each(self, dtype: str) -> Iterator[tuple[str, Tensor]]:
        """Every tensor by its Hugging Face name, in a dtype, on this device, in shares where they are."""
        kind = getattr(torch, dtype)
        own = ((name, parameter.detach()) for name, parameter in self.model.named_parameters())
        named = merged_weights(self.model) if self.lora else own
        return ((name, tensor.to(self.device, kind)) for name, tensor in named)

    def weights(self) -> dict[str, Tensor]:
        """What `each_weight` gives. Of several ranks all must call it; the first gets the tensors, on the CPU, the
        others none."""
        if not self.ranks.share:
            return dict(self.each_weight())
        return {name: tensor.cpu() for name, tensor in self.each_weight() if self.ranks.rank == 0}

    def snapshot(self, device: str | None = None) -> dict[str, Tensor]:
        """The weights as they are now, for a reader that works on while later updates move the policy.

        With adapters it copies no more than `weights` does: merged tensors are new, and the others never learn. Nor on
        several ranks, where all tensors are new.

        Args:
            device: where to; None: where the weights are.
        """
        shared = not self.lora and not self.ranks.share
        return {name: tensor.to(device or tensor.device, copy=shared) for name, tensor in self.weights().items()}

    def save(self, folder: str | Path, dtype: str = "float32", weights: Mapping[str, Tensor] | None = None) -> None:
        """Write configuration and weights in Hugging Face format, adapters merged, in `dtype` (float32 for an exact
        resume). A plain folder also needs the tokenizer, which belongs to the run (`ModelFiles`). Of several ranks all
        must call it, and the first writes.

        Args:
            weights: what `weights` or `snapshot` gave earlier; None: those of now.
        """
        target = Path(folder)
        kind = getattr(torch, dtype)
        chosen = self.weights() if weights is None else weights
        if self.ranks.rank:
            return
        target.mkdir(parents=True, exist_ok=True)
        self.model.save_pretrained(target, state_dict={name: one.to("cpu", kind) for name, one in chosen.items()})
        config = copy.deepcopy(self.model.config)
        config.dtype = kind
        config.save_pretrained(target)

    def state_dict(self) -> dict[str, Tensor]:
        """What a saved folder does not hold: the adapters of LoRA themselves, whose folder is merged."""
        return {name: tensor.detach() for name, tensor in self.model.named_parameters() if self.lora and MARK in name}

    def room(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Tensors into which a state with these names can be read.

        Raises:
            ModelError: it is of other adapters.
        """
        own = self.state_dict()
        check_adapters(dict.fromkeys(own), dict.fromkeys(names))
        return {name: torch.empty_like(tensor) for name, tensor in own.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Put back what `state_dict` gave; a policy with adapters must have been loaded from the run's first model, not
        from a checkpoint's merged folder.

        Raises:
            ModelError: the adapters are of another shape, so of other LoRA options.
        """
        own = self.state_dict()
        mine, theirs = ({name: tensor.shape for name, tensor in one.items()} for one in (own, state))
        check_adapters(mine, theirs)
        for name, tensor in own.items():
            tensor.copy_(state[name])


@dataclass(frozen=True)
class _BaseModel:
    """A policy with its adapters switched off."""

    _policy: Policy

    @torch.no_grad()
    def logprobs(self, packed: Packed, tokens: Tensor, temperature: float = 1.0) -> TokenLogprobs:
        learning = list(self._policy.parameters())
        with self._policy.module.disable_adapter():  # type: ignore[operator]
            for parameter in learning:  # FSDP2's first pass, which may be this one, looks in what precision they learn
                parameter.requires_grad_(True)
            return self._policy.logprobs(packed, tokens, temperature)


class _PolicyNetwork(nn.Module):
    """A decoder and its output embeddings with one forward pass: it alone puts parameters in shares together.

    Args:
        module: holds both, and adapters if there are any.
    """

    def __init__(self, module: nn.Module, decoder: Decoder, head: Head) -> None:
        super().__init__()
        self.module = module
        self.decoder = decoder
        self.head = head

    def forward(
        self, tree: Tree, before: Tensor, ids: Tensor, temperature: float, entropy_gradient: bool
    ) -> tuple[Tensor, Tensor]:
        """Log-probs of ids, and entropies, float32 [k] each, nats.

        Args:
            before: long [k], the computed token before each id; on the CPU, as all here is.
            ids: long [k].
        """
        hidden = self.decoder.hidden(tree)
        device = hidden.device
        with self.decoder.precision():
            before, ids = on_device(before, device), on_device(ids, device)
            return self.head.logprobs(hidden[before], ids, temperature, entropy_gradient)
