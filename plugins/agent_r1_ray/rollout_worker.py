"""A rollout worker on Ray: the actor, and the handle of it that the dispatcher has.

The actors are the crew's and outlive their handles, so that a run that loses its learner keeps them. Whoever takes one
over finds it at rest, with nothing of what it played before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import ObjectLostError

from agent_r1_core.assembly.local_roles import local_rollouts
from agent_r1_core.errors import LearnerLost
from agent_r1_ray.crew import Crew
from agent_r1_ray.direct import Published, Share, Weights
from agent_r1_ray.host import RolloutHost
from agent_r1_ray.jobs import Job, Report, WorkerLost
from agent_r1_ray.relay import Call, direct
from agent_r1_ray.remote import ROOM, Place, answer_of_living, end, here, placed
from agent_r1_ray.spec import WorkerSpec
from agent_r1_ray.weights import to_tensors

if TYPE_CHECKING:
    from ray.actor import ActorHandle

    from agent_r1_ray.cluster import Placement

_CALLS = 64
"""Calls of an actor at once; the controller makes a handful."""


class RolloutActor:
    """The actor of a rollout worker: a host in a process of its own."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._starting = asyncio.Lock()
        self._host: RolloutHost | None = None
        self._facts: dict[str, dict[str, Any]] | None = None
        """Those of its tools; None until it has started."""
        self._weights = Weights()
        self._reading = asyncio.Lock()

    def place(self) -> tuple[str, str, int]:
        """Where it runs."""
        return here()

    async def start(self) -> dict[str, dict[str, Any]]:
        """Make everything, open tools and engine; done once, however often it is asked for."""
        async with self._starting:
            if self._facts is None:
                blueprint = await asyncio.to_thread(self._spec.build)
                self._host = RolloutHost(local_rollouts(blueprint))
                self._facts = await self._host.start()
            return self._facts

    async def submit(self, jobs: Sequence[Job]) -> None:
        """Begin to play."""
        await self._started.submit(jobs)

    async def report(self, gather: float, most: int) -> Report:
        """What has happened since the last report."""
        return await self._started.report(gather, most)

    async def cancel(self, jobs: Sequence[int]) -> None:
        """Stop jobs."""
        await self._started.cancel(jobs)

    async def load_weights(self, version: int, *parts: Mapping[str, Any]) -> None:
        """Serve these weights."""
        await self._started.load_weights(to_tensors(parts), version)

    async def read_weights(self, version: int, shares: Sequence[Share]) -> None:
        """Serve the weights that the learner workers hold."""
        async with self._reading:
            weights = await asyncio.to_thread(self._weights.read, shares, version)
            await self._started.load_weights(weights, version)

    async def rest(self) -> None:
        """Free memory."""
        await self._started.rest()

    async def hand_over(self) -> None:
        """Stop, forget what was played, and rest."""
        self._host = await self._started.hand_over()

    async def close(self) -> None:
        """Release everything."""
        if self._host is not None:
            await self._host.close()

    @property
    def _started(self) -> RolloutHost:
        if self._host is None:
            raise RuntimeError("the rollout worker has not started")
        return self._host


class RayWorker:
    """The handle of a rollout worker's actor.

    Args:
        call: calls the actor's methods, once it has started.
    """

    def __init__(self, number: int, spec: Any, placement: Placement, crew: Crew, call: Call = direct) -> None:
        self.name = f"rollout worker {number}"
        self._call = call
        self._number, self._spec, self._placement, self._crew = number, spec, placement, crew
        self._actor: ActorHandle[Any] | None = None
        self._place: Place | None = None
        self._started = False
        self._orders: dict[asyncio.Future[Any], Published | None] = {}
        """Calls under way that change what the worker does, each with what it reads; Ray may begin later ones before
        them."""

    @property
    def place(self) -> str:
        """Where it runs, for people."""
        return str(self._place or "no machine yet")

    async def start(self) -> dict[str, dict[str, Any]]:
        """Start the crew's actor, or else a new one."""
        kept = self._crew.take(self._number)
        if kept is not None:
            self._actor, self._place = kept
        else:
            remote: Any = ray.remote(RolloutActor)
            options = await self._placement.player(self._number)
            self._actor = remote.options(max_concurrency=_CALLS, **options).remote(self._spec)
            self._place = await placed(self._running)
        facts: dict[str, dict[str, Any]] = await answer_of_living(self._running, self._running.start.remote())
        try:
            await asyncio.wait_for(self._call(self._running, "place"), ROOM)  # a relay may still start
        except TimeoutError:
            raise WorkerLost(f"the process that calls it has not answered for {ROOM:g} seconds") from None
        self._started = True
        return facts

    async def submit(self, jobs: Sequence[Job]) -> None:
        """Begin to play."""
        await self._order("submit", jobs)

    async def report(self, gather: float, most: int) -> Report:
        """What has happened since the last report."""
        report: Report = await self._call(self._running, "report", gather, most)
        return report

    async def load_weights(self, weights: Any, version: int) -> None:
        """Serve these weights, published ones or the references of their parts.

        Raises:
            LearnerLost: they are gone with the process or the machine that held them.
        """
        if isinstance(weights, Published):
            await self._order("read_weights", version, weights.shares, reads=weights)
            return
        try:
            await self._order("load_weights", version, *weights)
        except ObjectLostError:
            raise LearnerLost(f"the machine that held the weights of step {version} is gone") from None

    async def rest(self) -> None:
        """Free memory."""
        await self._order("rest")

    async def cancel(self, jobs: Sequence[int]) -> None:
        """Stop jobs."""
        await self._order("cancel", jobs)

    async def close(self) -> None:
        """Leave the process to the crew, at rest; one that still starts goes on with that."""
        if self._actor is None or self._place is None:
            return
        if self._started:
            await asyncio.gather(*self._orders, return_exceptions=True)
            await self._call(self._actor, "hand_over")  # behind reports that are on their way
        self._crew.keep(self._number, self._actor, self._place)
        self._actor = None

    def kill(self) -> None:
        """End the process, unless the crew has it."""
        if self._actor is not None:
            end(self._actor, self._place)
            self._actor = None

    async def _order(self, method: str, *arguments: Any, reads: Published | None = None) -> None:
        """Call a method; if the caller is cancelled, the call counts as under way until it has ended."""
        call = self._call if reads is None else direct  # a relay would keep what is read
        order = asyncio.ensure_future(call(self._running, method, *arguments))
        self._orders[order] = reads
        order.add_done_callback(self._orders.pop)
        await asyncio.shield(order)

    @property
    def _running(self) -> ActorHandle[Any]:
        if self._actor is None:
            raise RuntimeError(f"{self.name} has not started")
        return self._actor
