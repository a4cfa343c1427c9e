"""Weights by Ray's direct transport over NIXL: rollout workers read them out of the learner workers' memory.

Every learner worker has two buffers of its own rows, in main memory, registered once; each publication fills the one
that nobody reads. A rollout worker reads the rows of all learner workers into whole tensors, registered once as well.
No process has to take part in what another one reads, so whoever is lost meanwhile costs nobody else. Cards are not
read from or written to: what a learner worker holds on one is copied to main memory first.
"""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import prod
from typing import Any

import ray
import ray.experimental
import torch
from ray._private import ray_constants
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from torch import Tensor

from agent_r1_core.errors import LearnerLost, first_line

_TIMEOUT = 600.0
"""Seconds that reading all weights may take."""
_COLLECT = 5.0
"""Seconds between two looks for buffers that only garbage holds."""

EachShare = Callable[[], Iterable[tuple[str, torch.Size, int, Tensor]]]
"""`Policy.each_share`: name, shape of the whole, first row, rows."""


@dataclass(frozen=True)
class Rows:
    """Some rows of a weight."""

    name: str
    shape: tuple[int, ...]
    """Of the whole weight."""
    first: int
    count: int

    @property
    def size(self) -> int:
        """Numbers in these rows."""
        return self.count * prod(self.shape[1:])


@dataclass(frozen=True)
class Share:
    """What one learner worker has published."""

    layout: Sequence[Rows]
    dtype: str
    reference: Any
    """Ray's, to a tensor for each of the layout; None: it holds no rows."""


@dataclass(frozen=True, eq=False)
class Published:
    """Weights of one version. Their buffers stay as they are for as long as this process has this object."""

    shares: Sequence[Share]


class Slots:
    """Says which of the learner workers' buffers may be written, in the process that hands out what is published."""

    def __init__(self) -> None:
        self._published: list[weakref.ref[Published] | None] = [None, None]
        self._collected = 0.0

    def free(self) -> int | None:
        """The number of a buffer that nobody reads nor may begin to read; None: there is none at present."""
        for slot, published in enumerate(self._published):
            if published is None or published() is None:
                return slot
        if time.monotonic() - self._collected > _COLLECT:
            gc.collect()  # an error may hold the frame of whoever has read
            self._collected = time.monotonic()
        return None

    def publish(self, slot: int, shares: Sequence[Share]) -> Published:
        """What has been written to the buffers of this number."""
        published = Published(shares)
        self._published[slot] = weakref.ref(published)
        return published


class Publisher:
    """The buffers of a learner worker.

    Args:
        each_share: called for every publication.
        dtype: of the engines.
    """

    def __init__(self, each_share: EachShare, dtype: str) -> None:
        self._each_share, self._dtype = each_share, dtype
        self._layout = [Rows(name, tuple(shape), first, len(rows)) for name, shape, first, rows in each_share()]
        self._layout = [rows for rows in self._layout if rows.size]
        self._buffers = [self._views() for _ in range(2)]
        self._references = [ray.put(one, _tensor_transport="nixl") if one else None for one in self._buffers]

    def publish(self, slot: int) -> Share:
        """Write the weights of now into a buffer."""
        rows = (rows for *_, rows in self._each_share() if rows.numel())
        for kept, new in zip(self._buffers[slot], rows, strict=True):
            kept.copy_(new)
        return Share(self._layout, self._dtype, self._references[slot])

    def _views(self) -> list[Tensor]:
        room = registered([rows.size for rows in self._layout], self._dtype)
        return [view.view(rows.count, *rows.shape[1:]) for view, rows in zip(room, self._layout, strict=True)]


class Weights:
    """The whole weights in a rollout worker, for an engine to copy.

    Args:
        room: makes flat tensors of some sizes in a dtype, which NIXL knows.
    """

    def __init__(self, room: Callable[[Sequence[int], str], list[Tensor]] | None = None) -> None:
        self._room = room or registered
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._tensors: dict[str, Tensor] = {}

    def read(self, shares: Sequence[Share], version: int) -> dict[str, Tensor]:
        """Read published weights; the tensors are those of the last call, with other numbers.

        Raises:
            LearnerLost: they cannot be read, for instance since a learner worker is gone.
        """
        self.make(shares)
        held = [share for share in shares if share.layout]
        targets = [self.targets(share) for share in held]
        for share, target in zip(held, targets, strict=True):
            ray.experimental.set_target_for_ref(share.reference, target)
        # Ray waits no longer than this constant, which is a minute, and offers no argument.
        ray_constants.RDT_FETCH_FAIL_TIMEOUT_SECONDS = _TIMEOUT
        try:
            read = ray.get([share.reference for share in held])
        except RayError as error:
            raise LearnerLost(
                f"the weights of step {version} cannot be read from a learner worker by NIXL ({_last_line(error)}); if "
                "all of them live, let the machines reach each other by UCX, or set distributed.weights=store"
            ) from None
        for tensors, target in zip(read, targets, strict=True):
            for tensor, wanted in zip(tensors, target, strict=True):
                if tensor is not wanted:  # another call has brought the same reference meanwhile
                    wanted.copy_(tensor)
        return self._tensors

    def targets(self, share: Share) -> list[Tensor]:
        """Where each of a share's rows belong."""
        return [self._tensors[rows.name][rows.first : rows.first + rows.count] for rows in share.layout]

    def make(self, shares: Sequence[Share]) -> None:
        """Make the tensors, unless they are there.

        Raises:
            ValueError: the shares have a row twice, or not at all.
        """
        shapes = whole_shapes(shares)
        if shapes != self._shapes:
            room = self._room([prod(shape) for shape in shapes.values()], shares[0].dtype)
            self._tensors = {name: flat.view(shape) for flat, (name, shape) in zip(room, shapes.items(), strict=True)}
            self._shapes = shapes


def whole_shapes(shares: Sequence[Share]) -> dict[str, tuple[int, ...]]:
    """The shapes of all weights by their names.

    Raises:
        ValueError: the shares have a row twice, or not at all.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    filled: dict[str, int] = {}
    for rows in sorted((rows for share in shares for rows in share.layout), key=lambda rows: rows.first):
        if rows.first != filled.get(rows.name, 0):
            raise ValueError(f"row {filled.get(rows.name, 0)} of {rows.name} is in no share, or in several")
        shapes[rows.name], filled[rows.name] = rows.shape, rows.first + rows.count
    short = [name for name, shape in shapes.items() if filled[name] != shape[0]]
    if short:
        raise ValueError(f"the last rows of {short[0]} are in no share")
    return shapes


def registered(sizes: Sequence[int], dtype: str) -> list[Tensor]:
    """Flat tensors in main memory that NIXL knows, pinned where there is a GPU."""
    kind = getattr(torch, dtype)
    room = torch.zeros(max(1, sum(sizes)), dtype=kind, pin_memory=torch.cuda.is_available())
    ray.experimental.register_nixl_memory(room)
    return list(room[: sum(sizes)].split(list(sizes)))


def _last_line(error: Exception) -> str:
    return str(error).strip().rpartition("\n")[2] or type(error).__name__


def refusal() -> str | None:
    """Why NIXL does not start on a machine of the cluster; None: it starts on all of them."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    where = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
    reasons = ray.get([_refusal_here.options(scheduling_strategy=one).remote() for one in where])
    refused = (
        f"{reason} on {node['NodeManagerAddress']}" for node, reason in zip(nodes, reasons, strict=True) if reason
    )
    return next(refused, None)


@ray.remote(num_cpus=0, max_calls=1)
def _refusal_here() -> str | None:
    try:
        import_module("nixl")
        registered([1], "uint8")
    except ImportError:
        return "it is not installed"
    except Exception as error:
        return f"it fails with {type(error).__name__}: {first_line(error)}"
    return None
