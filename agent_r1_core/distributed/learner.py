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
from ray.exceptions import RayError

from agent_r1_core.distributed.dispatcher import SILENCE
from agent_r1_core.distributed.jobs import WorkerLost
from agent_r1_core.distributed.rank import LearnerActor
from agent_r1_core.distributed.remote import Place, answer, end, ours, placed
from agent_r1_core.errors import AgentR1Error, ConfigError, LearnerLost, ModelError, PluginError
from agent_r1_core.learning.selection import Selection

if TYPE_CHECKING:
    from ray.actor import ActorHandle

    from agent_r1_core.distributed.cluster import Placement
    from agent_r1_core.learning.update import Update
    from agent_r1_core.training.blueprint import Blueprint
    from agent_r1_core.trajectory import Group

_BEAT = 5.0
"""Seconds between two questions whether a rank still lives."""


class RayLearner:
    """The ranks of a learner.

    Args:
        spec: Ray's reference to the WorkerSpec of the blueprint.
    """

    def __init__(self, blueprint: Blueprint, spec: Any, placement: Placement) -> None:
        config = blueprint.resolved.config
        self.selection = Selection(blueprint.resolved.make("algorithm", config.algorithm), config.training)
        self._spec = spec
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
            meeting = await answer(self._ranks[0].meeting.remote())
            await self._all(lambda rank, number: rank.start.remote(number, len(self._ranks), meeting))
        except WorkerLost as error:
            raise LearnerLost(f"the learner workers have not started: {error}") from None
        except (ConfigError, ModelError, PluginError) as error:
            raise type(error)(f"a learner worker: {error}") from None
        self._lost = asyncio.get_running_loop().create_future()
        self._watch = asyncio.ensure_future(self._beat())

    def filter(self, groups: Sequence[Group]) -> list[Group]:
        """The groups that the algorithm wants to learn from."""
        return self.selection.filter(groups)

    def needs_greedy_baseline(self) -> bool:
        """Whether each task is also to be played greedily."""
        return self.selection.needs_greedy_baseline()

    def more_tasks(self, groups: Sequence[Group], tasks: int) -> int:
        """How many further tasks the algorithm asks for."""
        return self.selection.more_tasks(groups, tasks)

    async def update(self, groups: Sequence[Group], step: int) -> Update:
        """Learn from the groups of a step. A cancelled update ends the ranks, which hold weights of no step then."""
        shared = await asyncio.to_thread(ray.put, list(groups))
        try:
            updates = await self._all(lambda rank, number: rank.update.remote(shared, step))
        except asyncio.CancelledError:
            self._end()
            raise
        update: Update = updates[0]
        return update

    async def score(self, prompts: Sequence[Sequence[int]], actions: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probs of every action after every prompt, [actions][prompts], nats."""
        rows: list[list[float]] = (await self._all(lambda rank, number: rank.score.remote(prompts, actions)))[0]
        return rows

    async def snapshot(self) -> Any:
        """A reference to a copy of the policy's weights, which stay where rank 0 is until somebody loads them."""
        references = [rank.snapshot.remote() for rank in self._ranks]
        await self._done(references[1:])
        return references[0]

    def save_policy(self, folder: Path) -> None:
        """Write the policy's configuration and weights in Hugging Face format; the folder is on a shared disk."""
        _wait([rank.save_policy.remote(folder) for rank in self._ranks])

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
        return await self._done([call(rank, number) for number, rank in enumerate(self._ranks)])

    async def _done(self, references: Sequence[Any]) -> list[Any]:
        calls = asyncio.ensure_future(_gathered(references))
        watched: list[asyncio.Future[Any]] = [calls] if self._lost is None else [calls, self._lost]
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        if not calls.done() and self._lost is not None:
            calls.cancel()
            with suppress(asyncio.CancelledError):
                await calls
            raise LearnerLost(self._lost.result())
        try:
            return await calls
        except WorkerLost as error:
            raise LearnerLost(f"a learner worker is lost: {error}") from None
        except AgentR1Error:
            raise
        except Exception as error:
            # A rank whose partner died reports a broken connection, before Ray knows of the death.
            missing = await self._missing()
            if missing is None:
                raise
            raise LearnerLost(missing) from error

    async def _beat(self) -> None:
        """Ask all ranks again and again whether they live."""
        while True:
            await asyncio.sleep(_BEAT)
            missing = await self._missing()
            if missing is not None and self._lost is not None:
                self._lost.set_result(missing)
                return

    async def _missing(self) -> str | None:
        """A sentence about a rank that does not answer; None: all do."""
        for number, rank in enumerate(self._ranks):
            who = f"learner worker {number} on {self._places[number]}"
            try:
                await asyncio.wait_for(answer(rank.beat.remote()), SILENCE)
            except WorkerLost as error:
                return f"{who} is lost ({error})"
            except TimeoutError:
                return f"{who} is lost (it has not answered for {SILENCE:g} seconds)"
        return None

    def _end(self) -> None:
        places: list[Place | None] = [*self._places] or [None] * len(self._ranks)
        for rank, place in zip(self._ranks, places, strict=True):
            end(rank, place)
        self._ranks = []


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
        _wait([rank.write.remote(self._number, folder) for rank in self._ranks])


def _wait(references: Sequence[Any]) -> None:
    """Wait for all ranks, in a thread that may block.

    Raises:
        LearnerLost: a rank is gone.
        Exception: what a rank raised.
    """
    try:
        ray.get(list(references))
    except RayError as error:
        raised = ours(error)
        raise LearnerLost(f"a learner worker is lost: {raised}") if isinstance(raised, WorkerLost) else raised from None


async def _gathered(references: Sequence[Any]) -> list[Any]:
    return list(await asyncio.gather(*(answer(reference) for reference in references)))
