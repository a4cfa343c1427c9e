"""The processes that compute one update together, and the few things that they tell one another.

Whoever starts the processes makes torch's default process group: `gloo` on CPUs, `cpu:gloo,cuda:nccl` on GPUs, so that
what is on the CPU always goes by gloo. Apart from that group's time-out nothing here notices a rank that is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

T = TypeVar("T")


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
