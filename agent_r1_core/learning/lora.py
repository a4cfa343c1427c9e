"""Low-rank adapters through peft, an optional dependency (`pip install "agent-r1[lora]"`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from agent_r1_core.contracts.training import LoraSettings
from agent_r1_core.errors import ModelError
from agent_r1_core.seeds import derive_seed

MARK = ".lora_"
"""Part of the name of every tensor of an adapter."""


def add_lora(model: PreTrainedModel, options: LoraSettings, seed: int) -> Any:
    """Wrap a model so that only new low-rank adapters learn; they begin as the identity, drawn by `seed`.

    Raises:
        ModelError: peft is not installed, or a target module is not in the model, cannot have an adapter, or shares its
            weights with another one, as a head with the embeddings.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise ModelError('model.lora needs peft, which is not installed; run: pip install "agent-r1[lora]"') from error
    _check_targets(model, options)
    config = LoraConfig(
        r=options.rank,
        lora_alpha=options.alpha,  # type: ignore[arg-type]
        lora_dropout=options.dropout,
        target_modules=list(options.target_modules) or "all-linear",
        task_type="CAUSAL_LM",
    )
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return get_peft_model(model, config)
    except ValueError as error:
        raise ModelError(
            f"model.lora.target_modules {list(options.target_modules)} do not fit {type(model).__name__} ({error}); "
            "name linear layers of it, or leave the list empty for all of them"
        ) from error


def _check_targets(model: PreTrainedModel, options: LoraSettings) -> None:
    """Refuse what peft takes without a word: a name of nothing, and weights that another module has, too."""
    modules = dict(model.named_modules())
    owners = Counter(id(one) for module in modules.values() for one in module.parameters(recurse=False))
    found = {target: name for name in modules for target in options.targets_of(name)}
    for target in options.target_modules:
        if target not in found:
            linear = {name.rpartition(".")[2]: None for name, one in modules.items() if isinstance(one, nn.Linear)}
            raise ModelError(
                f"model.lora.target_modules names {target!r}, which no layer of {type(model).__name__} is called; its "
                f"linear layers are {', '.join(linear)}; leave the list empty for all but the head"
            )
        if any(owners[id(one)] > 1 for one in modules[found[target]].parameters(recurse=False)):
            raise ModelError(
                f"model.lora.target_modules names {target!r}, whose weights {type(model).__name__} shares between "
                "embeddings and head, so that no adapter can change one of them alone; leave it out"
            )


@dataclass
class DropoutSeed:
    """Where the masks of all adapters come from."""

    seed: int = 0
    step: int = 0
    rank: int = 0
    passes: int = 0
    """Forward passes with gradient within the step."""

    def begin(self, seed: int, step: int, rank: int = 0) -> None:
        self.seed, self.step, self.rank, self.passes = seed, step, rank, 0

    def of(self, layer: int) -> int:
        """The seed of a layer's mask in this pass; every rank has masks of its own, the first those of one alone."""
        others = (self.rank,) if self.rank else ()
        return derive_seed("dropout", self.seed, self.step, self.passes, layer, *others)


class AdapterDropout(nn.Module):
    """Dropout whose mask follows from a seed, the number of the pass and that of the layer.

    Torch's own draws from the global generator, where the draws of other threads would come between. A generator of
    the layer's own would not do: activation checkpointing computes a layer twice and needs the same mask twice.
    """

    def __init__(self, p: float, layer: int, seed: DropoutSeed) -> None:
        super().__init__()
        self.p, self.layer, self.seed = p, layer, seed

    def forward(self, hidden: Tensor) -> Tensor:
        """Each number is 0 with probability p, else divided by 1 - p; unchanged outside training."""
        if not self.training:
            return hidden
        generator = torch.Generator(hidden.device)
        generator.manual_seed(self.seed.of(self.layer))
        return hidden * torch.empty_like(hidden).bernoulli_(1 - self.p, generator=generator) / (1 - self.p)


def replace_dropout(model: nn.Module) -> DropoutSeed | None:
    """Put `AdapterDropout` in place of the adapters' own dropout; returns their common seed, or None if none drops."""
    seed, replaced = DropoutSeed(), False
    layers: list[Any] = [module.lora_dropout for module in model.modules() if hasattr(module, "lora_dropout")]
    for number, dropouts in enumerate(layers):
        for adapter, dropout in dropouts.items():
            if isinstance(dropout, nn.Dropout):
                dropouts[adapter], replaced = AdapterDropout(dropout.p, number, seed), True
    return seed if replaced else None


@torch.no_grad()
def merged_weights(model: PreTrainedModel) -> Iterator[tuple[str, Tensor]]:
    """The base model's tensors by their Hugging Face names with the adapters added, on copies: the live weights stay as
    they are, bit for bit."""
    layers: dict[str, Any] = {
        name: layer
        for name, layer in model.named_modules()
        if hasattr(layer, "get_delta_weight") and hasattr(layer, "base_layer")
    }
    for name, tensor in model.named_parameters():
        if MARK in name:
            continue
        owner = name.removesuffix(".base_layer.weight")
        merged = tensor + layers[owner].get_delta_weight("default") if owner in layers and owner != name else tensor
        yield name.replace(".base_layer.", "."), merged.detach()


def check_adapters(mine: Mapping[str, object], theirs: Mapping[str, object]) -> None:
    """Raise ModelError if the adapters differ in what is said of them."""
    if mine != theirs:
        raise ModelError("the checkpoint's adapters do not fit model.lora; resume with the LoRA options of the run")
