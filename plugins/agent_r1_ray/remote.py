"""Calls of Ray actors: awaited, with Ray's errors turned into ours."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from agent_r1_ray.jobs import BEAT, NoRoom, WorkerLost

ROOM = 120.0
"""Seconds that an actor may wait for free resources, or be silent while it starts."""


async def answer(reference: Any) -> Any:
    """The result of an actor's method.

    Raises:
        WorkerLost: the actor is gone.
        Exception: what the method raised.
    """
    try:
        return await reference
    except RayError as error:
        raise ours(error) from None


async def answer_of_living(actor: ActorHandle[Any], reference: Any) -> Any:
    """The result of a method that may take long, for as long as the actor also says where it is.

    Raises:
        WorkerLost: the actor is gone, or hangs.
        Exception: what the method raised.
    """
    call = asyncio.ensure_future(answer(reference))
    try:
        while not (await asyncio.wait([call], timeout=BEAT))[0]:
            try:
                await asyncio.wait_for(answer(actor.place.remote()), ROOM)
            except TimeoutError:
                raise WorkerLost(f"it has not answered for {ROOM:g} seconds") from None
        return call.result()
    finally:
        call.cancel()


def ours(error: RayError) -> Exception:
    """What the method raised, or WorkerLost if the actor is gone."""
    if not isinstance(error, RayTaskError):
        return WorkerLost(_reason(error))
    return error.cause if isinstance(error.cause, Exception) else RuntimeError(str(error))


async def placed(actor: ActorHandle[Any]) -> Place:
    """Where an actor is, as soon as it has found room.

    Raises:
        NoRoom: the cluster has no room for it.
        WorkerLost: it died.
    """
    try:
        found = await asyncio.wait_for(answer(actor.place.remote()), ROOM)
    except TimeoutError:
        raise NoRoom(f"the cluster has had no room for it for {ROOM:g} seconds") from None
    return Place(*found)


class Place:
    """The process of an actor."""

    def __init__(self, address: str, node: str, pid: int) -> None:
        self.address = address
        """IP address of its machine."""
        self._node = node
        self._pid = pid

    def __str__(self) -> str:
        return f"{self.address}, process {self._pid}"

    def kill(self) -> None:
        """Kill the process by its number: Ray alone does not end one that is stopped."""
        where = NodeAffinitySchedulingStrategy(self._node, soft=False)
        _kill.options(scheduling_strategy=where).remote(self._pid)


def here() -> tuple[str, str, int]:
    """The arguments of this actor's `Place`."""
    return ray.util.get_node_ip_address(), ray.get_runtime_context().get_node_id(), os.getpid()


def on_this_machine() -> NodeAffinitySchedulingStrategy:
    """Where a task, or an actor, is to run."""
    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)


def end(actor: ActorHandle[Any] | None, place: Place | None) -> None:
    """End an actor, whatever it does; never raises."""
    try:
        if actor is not None:
            ray.kill(actor)
        if place is not None:
            place.kill()
    except (RayError, ValueError, RuntimeError):  # Ray itself has ended
        return


@ray.remote(num_cpus=0, max_retries=0)
def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _reason(error: RayError) -> str:
    """One clause out of Ray's many lines."""
    text = str(error)
    if re.search(r"node (was|has|is) (terminated|died|dead|removed|lost)|The node .* died", text, re.IGNORECASE):
        return "its machine is gone"
    return "its process has ended"
