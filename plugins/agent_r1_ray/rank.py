"""LearnerActor: one rank of the learner in a process of its own."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
import torch
import torch.distributed
from torch.distributed import TCPStore

from agent_r1_core.assembly.components import make_learner
from agent_r1_core.learning.learner import CapturedState
from agent_r1_core.learning.ranks import ONE_RANK, Ranks
from agent_r1_ray.direct import Publisher
from agent_r1_ray.remote import here
from agent_r1_ray.stored import received
from agent_r1_ray.weights import in_parts

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from agent_r1_core.learning.forward import Family
    from agent_r1_core.learning.learner import Learner
    from agent_r1_core.learning.update import Update
    from agent_r1_core.trajectory import Group
    from agent_r1_ray.direct import Share
    from agent_r1_ray.spec import WorkerSpec
    from agent_r1_ray.weights import Arrays

_TIMEOUT = timedelta(minutes=30)
"""Of a collective of the ranks; whoever hangs longer was noticed before."""
_SIOCGIFADDR = 0x8915


class LearnerActor:
    """A rank. Its methods are called on all ranks alike; what only one can answer, the others answer with None."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._rank = 0
        self._learner: Learner | None = None
        self._store: TCPStore | None = None
        """Where the ranks meet, on the first one."""
        self._publisher: Publisher | None = None
        """Makes weights readable by NIXL, once they are wanted so."""
        self._captured: dict[int, CapturedState] = {}
        self._disk: ProcessGroup | None = None
        """The ranks once more, for writing while they learn; None: there is one."""

    @ray.method(concurrency_group="beat")
    def place(self) -> tuple[str, str, int]:
        """Where it runs."""
        return here()

    @ray.method(concurrency_group="beat")
    def beat(self) -> None:
        """Answer, which shows that the process lives."""

    def meeting(self) -> tuple[str, int]:
        """Address and port of this machine where the ranks can meet from now on."""
        address = ray.util.get_node_ip_address()
        self._store = TCPStore(address, 0, is_master=True, wait_for_workers=False, timeout=_TIMEOUT)
        return address, self._store.port

    def start(self, rank: int, size: int, address: str, port: int) -> None:
        """Meet the other ranks and make the learner."""
        blueprint = self._spec.build()
        self._rank = rank
        ranks, offload = ONE_RANK, blueprint.resolved.config.training.cpu_offload
        if size > 1 or offload:
            store = self._store or TCPStore(address, port, is_master=False, timeout=_TIMEOUT)
            ranks = _joined(rank, size, store, blueprint.hardware.device, offload)
        self._disk = torch.distributed.new_group(backend="gloo", timeout=_TIMEOUT) if size > 1 else None
        self._learner = make_learner(blueprint, ranks)

    def update(self, sent: Any, step: int) -> Update | None:
        """Learn from the groups of a step, a parcel."""
        groups: list[Group] = received(sent)
        update = self._made.update(groups, step)
        if self._spec.hardware.device == "cuda":
            torch.cuda.empty_cache()  # for an engine on the same card
        return update if self._rank == 0 else None

    def score(self, families: Sequence[Family]) -> list[list[list[float]]] | None:
        """Log-probs of every action of a family after every one of its prompts."""
        scores = [family.tolist() for family in self._made.score(families)]
        return scores if self._rank == 0 else None

    @ray.method(num_returns="streaming")
    def snapshot(self) -> Iterator[Arrays | None]:
        """A copy of the policy's weights in the precision of the engines, part by part, of the first rank; of all of
        them None, which says that it is made."""
        dtype = self._spec.hardware.dtype
        weights = self._made.policy.each_weight(dtype)
        if self._rank == 0:
            yield from in_parts(weights, dtype)  # Ray copies a part before it asks for the next
        else:
            deque(weights, maxlen=0)
        yield None

    def publish(self, slot: int) -> Share:
        """Copy this rank's rows of the weights, in the precision of the engines, into its buffer of this number."""
        if self._publisher is None:
            dtype = self._spec.hardware.dtype
            self._publisher = Publisher(lambda: self._made.policy.each_share(dtype), dtype)
        return self._publisher.publish(slot)

    def save_policy(self, folder: Path) -> None:
        """Write the policy, the first rank for all."""
        self._made.policy.save(folder)

    def capture(self, number: int, copy: bool) -> None:
        """Keep this rank's share of the state as it is now, under a number."""
        self._captured[number] = CapturedState(self._made, copy)

    @ray.method(concurrency_group="disk")
    def write(self, number: int, folder: Path) -> None:
        """Write what was captured, while the rank may learn on."""
        self._captured.pop(number).write(folder, self._disk)

    @property
    def _made(self) -> Learner:
        if self._learner is None:
            raise RuntimeError("the learner worker has not started")
        return self._learner


def _joined(rank: int, size: int, store: TCPStore, device: str, offload: bool) -> Ranks:
    """Meet the other ranks in torch's default process group."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", _interface(ray.util.get_node_ip_address()))
    if device == "cuda":
        torch.cuda.set_device(0)  # Ray shows an actor its own devices alone
    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    torch.distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=_TIMEOUT)
    return Ranks.of_group(device, offload)


def _interface(address: str) -> str:
    """The network interface with this IP address: gloo takes that of the machine's name, which may lead nowhere."""
    wanted = socket.inet_aton(address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # an interface without an address
                found = fcntl.ioctl(asking, _SIOCGIFADDR, struct.pack("256s", name.encode()))
                if found[20:24] == wanted:
                    return name
    return "lo"
