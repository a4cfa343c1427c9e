"""Cluster: joins a Ray cluster or starts a local one, and says which share of it each worker gets."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import socket
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ray
import ray._private.worker as _ray_worker
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from agent_r1_core.errors import ConfigError, first_line
from agent_r1_ray.jobs import NoRoom
from agent_r1_ray.left_behind import MARK
from agent_r1_ray.remote import ROOM, answer

if TYPE_CHECKING:
    from ray.util.placement_group import PlacementGroup

    from agent_r1_core.config.models import DistributedConfig

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cluster:
    """A running Ray, with what it had when the run began."""

    address: str
    """HOST:PORT."""
    machines: Sequence[float]
    """The CPUs of each."""
    gpus: float
    mark: str | None = None
    """The value of `left_behind.MARK` for all that a local Ray has started."""


@contextmanager
def connected(settings: DistributedConfig) -> Iterator[Cluster]:
    """A connection to the cluster that the recipe names; a local Ray lives as long as it.

    Raises:
        ConfigError: there is no cluster at the address, or the local Ray does not start.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 starves workers on a busy machine
    mark = None if settings.address else uuid.uuid4().hex
    local: dict[str, Any] = {} if mark is None else {"include_dashboard": False}
    if mark is not None:
        os.environ[MARK] = mark
    with _own_signals():
        # Ray prints a paragraph to stdout for every lost worker; who is lost, and what follows, the run says itself.
        _ray_worker.print_to_stdstream = lambda data, ignore_prefix: _LOG.info("%s", "\n".join(data["lines"]))
        try:
            _check_reachable(settings.address)
            ray.init(settings.address or "local", log_to_driver=False, logging_level=logging.ERROR, **local)
        except (OSError, RuntimeError, ValueError) as error:
            said = f"{type(error).__name__}: {first_line(error)}"
            if settings.address is None:
                raise ConfigError(
                    f"Ray does not start here ({said}); if this process has started one, call ray.shutdown() first"
                ) from None
            raise ConfigError(
                f"there is no Ray cluster at {settings.address}, or it wants a token ({said}); start one with "
                "`ray start --head`, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH, or set distributed.address=null, "
                "which starts one on this machine"
            ) from None
    try:
        alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        address = ray.get_runtime_context().gcs_address
        cpus, gpus = ([one.get(kind, 0.0) for one in alive] for kind in ("CPU", "GPU"))
        yield Cluster(address, cpus, sum(gpus), mark)
    finally:
        with _own_signals():
            ray.shutdown()


def _check_reachable(address: str | None) -> None:
    """Ray itself would wait for minutes.

    Raises:
        OSError: nobody listens there.
    """
    if address not in (None, "auto"):
        host, _, port = str(address).rpartition(":")
        socket.create_connection((host, int(port)), timeout=10).close()


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep this process's handler of SIGTERM, which Ray replaces."""
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGTERM, handler)


class Placement:
    """Which part of the cluster every worker gets.

    Rollout workers are spread over the machines. Learner workers are packed together, and all of them have room or none
    starts. Colocated workers share a learner worker's GPU.
    """

    def __init__(self, settings: DistributedConfig, cluster: Cluster) -> None:
        """Plan it.

        Raises:
            ConfigError: the cluster has fewer GPUs than the workers need.
        """
        default = 1.0 if cluster.gpus else 0.0
        self.players, self.learners = settings.rollout_workers, settings.learner_workers
        self._colocated = settings.placement == "colocated"
        play, learn = settings.gpus_per_rollout_worker, settings.gpus_per_learner_worker
        self.play_gpus = default if play is None else play
        self.learn_gpus = default if learn is None else learn
        if self._colocated:
            self.play_gpus = self.learn_gpus
        needed = self.learners * self.learn_gpus + (0 if self._colocated else self.players * self.play_gpus)
        if needed > cluster.gpus:
            raise ConfigError(
                f"the workers need {needed:g} GPUs ({self.players} x {self.play_gpus:g} to play, {self.learners} x "
                f"{self.learn_gpus:g} to learn), but the cluster has {cluster.gpus:g}; lower "
                "distributed.rollout_workers, distributed.learner_workers or distributed.gpus_per_*"
            )
        workers = self.players + self.learners
        self.threads = max(1, int(sum(cluster.machines) // workers))
        """CPU threads of each worker."""
        # Two that share a GPU are on the same machine.
        together = 2 if self._colocated else 1
        self._cpus = cpus_per_worker(cluster.machines, -(-workers // together)) / together
        self._group: asyncio.Task[PlacementGroup] | None = None

    async def player(self, number: int) -> dict[str, Any]:
        """Ray's options for a rollout worker.

        Raises:
            NoRoom: the cluster has no room.
        """
        if not self._colocated:
            return {"num_cpus": self._cpus, "num_gpus": self.play_gpus, "scheduling_strategy": "SPREAD"}
        return {"num_cpus": self._cpus, "num_gpus": self.learn_gpus / 2, **await self._beside(number)}

    async def learner(self, number: int) -> dict[str, Any]:
        """Ray's options for a learner worker.

        Raises:
            NoRoom: the cluster has no room.
        """
        gpus = self.learn_gpus / 2 if self._colocated else self.learn_gpus
        return {"num_cpus": self._cpus, "num_gpus": gpus, **await self._beside(number)}

    def release(self) -> None:
        """Give back what was reserved for the learner; colocated rollout workers, which live on, keep theirs."""
        group = self._group
        reserved = group is not None and group.done() and not group.cancelled() and group.exception() is None
        if group is not None and reserved and not self._colocated:
            remove_placement_group(group.result())
        if not (reserved and self._colocated):
            self._group = None

    async def _beside(self, number: int) -> dict[str, Any]:
        if self._group is None:
            self._group = asyncio.ensure_future(self._reserve())
        return {"scheduling_strategy": PlacementGroupSchedulingStrategy(await self._group, number)}

    async def _reserve(self) -> PlacementGroup:
        cpus = self._cpus * (2 if self._colocated else 1)
        bundle = {"CPU": cpus} | ({"GPU": self.learn_gpus} if self.learn_gpus else {})
        group = placement_group([bundle] * self.learners, strategy="PACK")
        try:
            # A thread that still waited for it when Ray shuts down would bring the process down with it.
            await asyncio.wait_for(answer(group.ready()), ROOM)
        except TimeoutError:
            remove_placement_group(group)
            each = " and ".join(f"{amount:g} {name}" for name, amount in bundle.items())
            raise NoRoom(
                f"the cluster has had no room for {self.learners} learner workers of {each} for {ROOM:g} seconds; "
                "add machines and resume the run, or lower distributed.learner_workers"
            ) from None
        return group


def cpus_per_worker(machines: Sequence[float], workers: int) -> float:
    """The largest share, at most 1, of which `workers` fit without the largest of several machines.

    A worker is on one machine, so that what is left over on each cannot be added up. Ray counts thousandths.

    Args:
        machines: the CPUs of each.
    """
    left = sorted(cpus for cpus in machines if cpus > 0)
    left = left[:-1] or left
    shares = {math.floor(1000 * min(1.0, cpus / fit)) for cpus in left for fit in range(1, workers + 1)}
    fitting = (share for share in shares if share and sum(int(1000 * cpus / share) for cpus in left) >= workers)
    return max(fitting, default=0) / 1000
