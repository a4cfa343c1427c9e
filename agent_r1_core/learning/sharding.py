"""Networks that several ranks hold in shares, by FSDP2: each layer is put together when it computes, then dropped.

Gradients are the sum over ranks, not the mean: every loss term carries the normaliser of the whole update (LAW 6).
The first rank has whole weights, wherever they are; the others need none. A layer after the other goes from the first
rank to all others, on the ranks' device, and is cut there; shares may stay in main memory. Torch's way (`to_empty` and
`set_model_state_dict`) would leave buffers that no file holds without numbers, and untie what is tied.
A torch without `set_reduce_scatter_unused_params` takes no model of which a pass may leave parameters unused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from agent_r1_core.learning.decoder import Decoder
from agent_r1_core.learning.ranks import Ranks

_HALF = MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=False)
"""Layers travel in bfloat16, which autocast would make of them anyway, and would keep until the backward pass."""


def shard(network: nn.Module, decoder: Decoder, ranks: Ranks) -> None:
    """Leave this rank its share of the first rank's weights; they stand whole only within `network`'s forward.

    Args:
        network: the same on all ranks, but only the first one's numbers count; the others' may be on the device `meta`.
        decoder: a part of the network; its layers travel one by one, all else together.
    """
    decoder.follow(ranks)
    policy = _HALF if decoder.dtype == "bfloat16" else MixedPrecisionPolicy()
    options: dict[str, Any] = {"mesh": ranks.mesh}
    if ranks.offload:
        options["offload_policy"] = CPUOffloadPolicy(pin_memory=ranks.device != "cpu")
    layers = _layers(decoder)
    for layer in layers:
        _take_first(layer, ranks)
        fully_shard(layer, mp_policy=policy, **options)
    _take_first(network, ranks)
    fully_shard(network, **options)
    part: Any
    for part in (*layers, network):
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)
        if hasattr(part, "set_reduce_scatter_unused_params"):
            part.set_reduce_scatter_unused_params(True)
    network.register_forward_hook(_drop)


def whole(tensor: Tensor) -> Tensor:
    """A parameter, gradient or number that may be in shares, as a plain tensor. All ranks must ask for it."""
    gathered: Any = getattr(tensor, "full_tensor", None)
    return tensor if gathered is None else gathered()


def dealt(tensor: Tensor, other: Tensor) -> Tensor:
    """A whole tensor, in shares where another one is, and where that one is. All ranks have it: nothing travels."""
    tensor = tensor.to(other.device)
    if not isinstance(other, DTensor):
        return tensor
    return distribute_tensor(tensor, other.device_mesh, other.placements, src_data_rank=None)


def _take_first(module: nn.Module, ranks: Ranks) -> None:
    """Put the first rank's parameters and buffers in place of this rank's, but for those that are in shares. What is
    one tensor there is one here: files may untie what the configuration ties."""
    own = {name: tensor for name, tensor in _tensors(module) if not isinstance(tensor, DTensor)}
    taken: dict[int, Tensor] = {}
    for name, identity, dtype in ranks.first([(name, id(tensor), tensor.dtype) for name, tensor in own.items()]):
        if identity not in taken:
            tensor = own[name]
            copy = torch.empty(tensor.shape, dtype=dtype, device=ranks.device)
            ranks.copy_first(copy if ranks.rank else copy.copy_(tensor.detach()))
            learns = tensor.requires_grad
            taken[identity] = nn.Parameter(copy, learns) if isinstance(tensor, nn.Parameter) else copy
        owner, _, place = name.rpartition(".")
        setattr(module.get_submodule(owner), place, taken[identity])


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers by all their names."""
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _drop(network: Any, *_: Any) -> None:
    """Without a backward pass FSDP2 would keep what it gathered for the root, and not see the next optimiser step."""
    if not torch.is_grad_enabled():
        network.reshard()


def _layers(decoder: Decoder) -> list[nn.Module]:
    """The decoder's layers. None where it runs a sequence at a time: ranks would gather them different numbers of
    times."""
    if not decoder.packs:
        return []
    layers = getattr(decoder.module, "layers", None)
    if isinstance(layers, nn.ModuleList):
        return list(dict.fromkeys(layers))
    names = set(decoder.module._no_split_modules or ())
    return [module for module in decoder.module.modules() if type(module).__name__ in names]
