"""The processes that compute one update together, what they exchange, and the networks that they hold in shares.

The caller makes torch's default process group: `gloo` on CPUs, `cpu:gloo,cuda:nccl` on GPUs, so that what is on the CPU
always goes by gloo. Apart from that group's time-out nothing here notices a missing rank.

Shares are FSDP2's: each layer is put together when it computes, then dropped. Gradients are the sum over ranks, not the
mean: every loss term carries the normaliser of the whole update (LAW 6). The first rank has whole weights, wherever
they are; the others need none. One layer after the other goes from the first rank to all others, on the ranks' device,
and is cut there; shares may stay in main memory. Torch's way (`to_empty` and `set_model_state_dict`) would leave
buffers that no file holds without numbers, and untie what is tied.
A torch without `set_reduce_scatter_unused_params` takes no model of which a pass may leave parameters unused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard

T = TypeVar("T")
_HALF = MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=False)
"""Layers travel in bfloat16, which autocast would make of them anyway, and would keep until the backward pass."""


@dataclass(frozen=True)
class Ranks:
    """This process among `size`. All ranks must call a method alike, in the same order; a single one waits for nobody.

    Every rank gets the same rollout and decides alike; only passes of the networks are dealt out.
    """

    rank: int = 0
    size: int = 1
    device: str = "cpu"
    """Where this rank computes, and holds its share of the networks, if it has a share."""
    offload: bool = False
    """Whether shares, their gradients and moments stay in main memory; also where a single rank has all of them."""

    @classmethod
    def of_group(cls, device: str = "cpu", offload: bool = False) -> Ranks:
        """The ranks of torch's default process group, which must be there.

        Args:
            device: `cpu` or `cuda`; on GPUs each rank must have chosen its own by `torch.cuda.set_device`.
        """
        return cls(dist.get_rank(), dist.get_world_size(), device, offload)

    @property
    def share(self) -> bool:
        """Whether networks are held in shares."""
        return self.size > 1 or self.offload

    def add(self, *tensors: Tensor) -> None:
        """Turn each tensor, on the CPU, into the sum over all ranks, in place."""
        if self.size > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def most(self, number: int) -> int:
        """The largest of the ranks' numbers."""
        if self.size == 1:
            return number
        largest = torch.tensor(number)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return int(largest)

    def gather(self, value: T) -> list[T]:
        """What each rank gave, in their order; it must be picklable, and on the CPU."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def first(self, value: T) -> T:
        """What the first rank gave; it must be picklable, and on the CPU."""
        if self.size == 1:
            return value
        values: list[Any] = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]

    def copy_first(self, tensor: Tensor) -> None:
        """Turn a tensor, on the CPU or the ranks' device, into that of the first rank, in place."""
        if self.size > 1:
            dist.broadcast(tensor, src=0)

    @cached_property
    def mesh(self) -> DeviceMesh:
        """The ranks in a row, as FSDP2 wants them."""
        return init_device_mesh(torch.device(self.device).type, (self.size,))


ONE_RANK = Ranks()
"""A process on its own."""


def shard(network: nn.Module, layers: Sequence[nn.Module], half: bool, ranks: Ranks) -> None:
    """Leave this rank its share of the first rank's weights; only `network`'s forward puts them together.

    Args:
        network: the same on all ranks, but only the first one's numbers count; the others' may be on the device `meta`.
        layers: parts of it that travel one by one; all else travels together.
        half: whether layers travel in bfloat16.
    """
    policy = _HALF if half else MixedPrecisionPolicy()
    options: dict[str, Any] = {"mesh": ranks.mesh}
    if ranks.offload:
        options["offload_policy"] = CPUOffloadPolicy(pin_memory=ranks.device != "cpu")
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


def own_rows(tensor: Tensor) -> tuple[int, Tensor]:
    """The rows of a parameter that this rank holds, and the number of the first one; all of them where it is in no
    shares. All ranks must ask for it, since what was computed from shares may be cut anew."""
    if not isinstance(tensor, DTensor):
        return 0, tensor
    mesh, rows = tensor.device_mesh, tensor.shape[0]
    each = -(-rows // mesh.size())
    own = tensor if tensor.placements == (Shard(0),) else tensor.redistribute(placements=[Shard(0)])
    return min(mesh.get_local_rank() * each, rows), own.to_local()


def _take_first(module: nn.Module, ranks: Ranks) -> None:
    """Put the first rank's parameters and buffers in place of this rank's, but for those that are in shares. What is
    one tensor there is one here: files may untie what the configuration ties."""
    named = chain(module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False))
    own: dict[str, Tensor] = {name: tensor for name, tensor in named if not isinstance(tensor, DTensor)}
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


def _drop(network: Any, *_: Any) -> None:
    """Without a backward pass FSDP2 would keep what it gathered for the root, and not see the next optimiser step."""
    if not torch.is_grad_enabled():
        network.reshard()
