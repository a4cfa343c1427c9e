"""The learner on Ray: one actor per rank behind the role that the trainer knows.

Every rank gets the whole rollout and computes the same advantages; the ranks share the passes of the networks. If one
is lost, the update cannot go on: `LearnerLost` says so, and the run goes on from its newest checkpoint with new ranks.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import GetTimeoutError, RayError

from agent_r1_core.errors import AgentR1Error, ConfigError, LearnerLost, ModelError, PluginError
from agent_r1_ray.direct import Published, Slots
from agent_r1_ray.jobs import BEAT, SILENCE, WorkerLost
from agent_r1_ray.rank import LearnerActor
from agent_r1_ray.remote import Place, answer, end, on_this_machine, ours, placed
from agent_r1_ray.stored import assembled, parcel

if TYPE_CHECKING:
    from ray.actor import ActorHandle

    from agent_r1_core.assembly.blueprint import Blueprint
    from agent_r1_core.learning.forward import Family
    from agent_r1_core.learning.update import Update
    from agent_r1_core.trajectory import Group
    from agent_r1_ray.cluster import Placement

_LOOK = 0.05
"""Seconds until it is asked again whether a buffer is free."""


class RayLearner:
    """The ranks of a learner.

    Args:
        spec: Ray's reference to the WorkerSpec of the blueprint.
        direct: whether rollout workers read new weights by NIXL, not from Ray's object store.
    """

    def __init__(self, blueprint: Blueprint, spec: Any, placement: Placement, direct: bool) -> None:
        self._spec = spec
        self._slots = Slots() if direct else None
        self._placement = placement
        self._ranks: list[ActorHandle[Any]] = []
        self._places: list[Place] = []
        self._captures = itertools.count()
        self._watch: asyncio.Task[None] | None = None
        self._lost: asyncio.Future[str] | None = None
        """Done as soon as a rank is lost; says how."""

    async def start(self) -> None:
        """Start all ranks.

        Raises:
            AgentR1Error: a rank cannot start.
        """
        actor: Any = ray.remote
        remote = actor(concurrency_groups={"beat": 1, "disk": 1})(LearnerActor)
        try:
            options = [await self._placement.learner(number) for number in range(self._placement.learners)]
            self._ranks = [remote.options(**one).remote(self._spec) for one in options]
            self._places = await asyncio.gather(*(placed(rank) for rank in self._ranks))
        except WorkerLost as error:
            raise LearnerLost(f"the learner workers have not started: {error}") from None
        self._lost = asyncio.get_running_loop().create_future()
        self._watch = asyncio.ensure_future(self._beat())
        (meeting,) = await self._done([self._ranks[0].meeting.remote()])
        try:
            await self._all(lambda rank, number: rank.start.remote(number, len(self._ranks), *meeting))
        except (ConfigError, ModelError, PluginError) as error:
            raise type(error)(f"a learner worker: {error}") from None

    async def update(self, groups: Sequence[Group], step: int) -> Update:
        """Learn from the groups of a step. A cancelled update ends the ranks, which hold weights of no step then."""
        sent = await asyncio.to_thread(parcel, list(groups))
        if len(sent) > 1:  # each reference of each rank would cost the controller a call
            sent = [assembled.options(scheduling_strategy=on_this_machine()).remote(self._spec, *sent)]
        try:
            updates = await self._all(lambda rank, number: rank.update.remote(sent[0], step))
        except asyncio.CancelledError:
            self._lose("the learner workers ended with an update that was stopped")
            raise
        update: Update = updates[0]
        return update

    async def score(self, families: Sequence[Family]) -> list[list[list[float]]]:
        """Log-probs of every action of a family after every one of its prompts, [families][actions][prompts], nats."""
        scores: list[list[list[float]]] = (await self._all(lambda rank, number: rank.score.remote(families)))[0]
        return scores

    async def snapshot(self) -> list[Any] | Published:
        """A copy of the policy's weights: references to its parts, which stay where rank 0 is until somebody loads
        them, or what every rank holds of it."""
        self._check()
        if self._slots is not None:
            return await self._published(self._slots)
        generators: list[Any] = [rank.snapshot.remote() for rank in self._ranks]
        await self._done([generator.completed() for generator in generators])
        references: list[list[Any]] = [list(generator) for generator in generators]
        await self._done([of_rank[-1] for of_rank in references])  # where a rank has raised, its last one says so
        return references[0][:-1]

    async def _published(self, slots: Slots) -> Published:
        """Let every rank fill a buffer; wait while a rollout worker still reads the weights before the last ones."""
        while (slot := slots.free()) is None:
            await asyncio.sleep(_LOOK)
            self._check()
        shares = await self._all(lambda rank, _: rank.publish.remote(slot))
        return slots.publish(slot, shares)

    def save_policy(self, folder: Path) -> None:
        """Write the policy's configuration and weights in Hugging Face format; the folder is on a shared disk."""
        self._check()
        _wait(self._ranks, [rank.save_policy.remote(folder) for rank in self._ranks])

    async def capture(self, copy: bool = True) -> _Captured:
        """Let every rank keep its share of the state as it is now."""
        number = next(self._captures)
        await self._all(lambda rank, _: rank.capture.remote(number, copy))
        return _Captured(self._ranks, number)

    async def close(self) -> None:
        """End all ranks."""
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
        self._end()
        self._placement.release()

    async def _all(self, call: Callable[[ActorHandle[Any], int], Any]) -> list[Any]:
        """Call every rank.

        Raises:
            LearnerLost: a rank is gone.
        """
        self._check()
        return await self._done([call(rank, number) for number, rank in enumerate(self._ranks)])

    def _check(self) -> None:
        """Raise LearnerLost if a rank was lost meanwhile."""
        if self._lost is not None and self._lost.done():
            raise LearnerLost(self._lost.result())

    async def _done(self, references: Sequence[Any]) -> list[Any]:
        calls = asyncio.ensure_future(_gathered(references))
        watched: list[asyncio.Future[Any]] = [calls] if self._lost is None else [calls, self._lost]
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not calls.done():
                calls.cancel()
        self._check()
        try:
            return await calls
        except AgentR1Error:
            raise
        except Exception as error:
            # A rank whose partner died reports a broken connection, before Ray knows of the death.
            self._check()
            missing = await self._missing()
            self._check()
            if missing is None and not isinstance(error, WorkerLost):
                raise
            self._lose(missing or f"a learner worker is lost: {error}")
            raise LearnerLost(missing or f"a learner worker is lost: {error}") from error

    async def _beat(self) -> None:
        """Ask all ranks again and again whether they live."""
        while True:
            await asyncio.sleep(BEAT)
            missing = await self._missing()
            if missing is not None:
                self._lose(missing)
                return

    async def _missing(self) -> str | None:
        """A sentence about a rank that does not answer; None: all do."""
        for number, (rank, place) in enumerate(zip(self._ranks, self._places, strict=True)):
            who = f"learner worker {number} on {place}"
            try:
                await asyncio.wait_for(answer(rank.beat.remote()), SILENCE)
            except WorkerLost as error:
                return f"{who} is lost ({error})"
            except TimeoutError:
                return f"{who} is lost (it has not answered for {SILENCE:g} seconds)"
        return None

    def _lose(self, reason: str) -> None:
        """End all ranks: what one of them cannot do, none can, and whoever waits for one that hangs goes on."""
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(reason)
        self._end()

    def _end(self) -> None:
        places: list[Place | None] = [*self._places] or [None] * len(self._ranks)
        for rank, place in zip(self._ranks, places, strict=True):
            end(rank, place)
        self._ranks, self._places = [], []


class _Captured:
    """What the ranks have captured under a number."""

    def __init__(self, ranks: Sequence[ActorHandle[Any]], number: int) -> None:
        self._ranks, self._number = list(ranks), number

    def write(self, folder: Path) -> None:
        """Let every rank write its share; the folder is on a disk that all of them share.

        Raises:
            LearnerLost: a rank is gone.
            OSError, RuntimeError, SafetensorError: writing fails.
        """
        _wait(self._ranks, [rank.write.remote(self._number, folder) for rank in self._ranks])


def _wait(ranks: Sequence[ActorHandle[Any]], references: Sequence[Any]) -> None:
    """Wait for all ranks, in a thread that may block, but not for one that is lost.

    Raises:
        LearnerLost: a rank is gone, or hangs.
        Exception: what a rank raised.
    """
    pending = list(references)
    try:
        while pending:
            done, pending = ray.wait(pending, num_returns=len(pending), timeout=BEAT)
            ray.get(done)
            _beat_once(ranks if pending else ())
    except RayError as error:
        raised = ours(error)
        if isinstance(raised, WorkerLost):
            raise LearnerLost(f"a learner worker is lost: {raised}") from None
        _beat_once(ranks)  # a rank whose partner died reports a broken connection
        raise raised from None


def _beat_once(ranks: Sequence[ActorHandle[Any]]) -> None:
    """Ask ranks whether they live.

    Raises:
        LearnerLost: one does not.
    """
    try:
        ray.get([rank.beat.remote() for rank in ranks], timeout=SILENCE)
    except GetTimeoutError:
        raise LearnerLost(f"a learner worker is lost: it has not answered for {SILENCE:g} seconds") from None
    except RayError as error:
        raise LearnerLost(f"a learner worker is lost: {ours(error)}") from None


async def _gathered(references: Sequence[Any]) -> list[Any]:
    return list(await asyncio.gather(*(answer(reference) for reference in references)))
