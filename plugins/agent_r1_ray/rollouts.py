"""Rollouts on Ray: several workers behind the role that the trainer knows."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

from agent_r1_core.errors import RunError
from agent_r1_core.rollout.plan import play_request
from agent_r1_core.rollout.result import RolloutResult
from agent_r1_core.tools.tool_counts import ToolCounts
from agent_r1_core.work import working
from agent_r1_ray.dispatcher import Dispatcher
from agent_r1_ray.relay import WORKERS, Relay, direct
from agent_r1_ray.rollout_worker import RayWorker
from agent_r1_ray.weights import in_parts
from agent_r1_ray.writer import Writer

if TYPE_CHECKING:
    from agent_r1_core.assembly.blueprint import Blueprint
    from agent_r1_core.contracts.token_numbers import TokenNumbers
    from agent_r1_core.rollout import OnEpisode, RolloutRequest
    from agent_r1_core.runs.call_log import CallLog
    from agent_r1_core.trajectory import Trajectory
    from agent_r1_ray.cluster import Placement
    from agent_r1_ray.crew import Crew

_SELDOM, _NEVER = 100_000, 1_000_000_000


class Garbage:
    """Python's search for garbage in a process that holds the episodes of a step: hundreds of thousands of objects, of
    which none is garbage. A search through all of them comes once a rollout and spares what was there before, one
    through the newest comes seldom."""

    def __init__(self) -> None:
        self._before: tuple[int, int, int] | None = None

    def spare(self) -> None:
        """Begin."""
        self._before = gc.get_threshold()
        gc.set_threshold(_SELDOM, self._before[1], _NEVER)
        gc.freeze()

    def restore(self) -> None:
        """Let Python search as it did before."""
        if self._before is not None:
            gc.set_threshold(*self._before)
            gc.unfreeze()


class RayRollouts:
    """Rollouts of several workers.

    Args:
        spec: Ray's reference to the WorkerSpec of the blueprint.
        crew: where workers come from, and are left in the end.
        note: receives sentences for the user.
    """

    def __init__(
        self, blueprint: Blueprint, spec: Any, placement: Placement, crew: Crew, note: Callable[[str], None]
    ) -> None:
        config = blueprint.resolved.config
        self._relays = [Relay(spec) for _ in range(round(placement.players / WORKERS))]
        calls = [relay.call for relay in self._relays] or [direct]
        self._dispatcher = Dispatcher(
            lambda number: RayWorker(number, spec, placement, crew, calls[number % len(calls)]),
            placement.players,
            config.engine.config.max_episodes,
            config.deterministic,
            note,
        )
        self._seed = config.seed
        self._dtype = blueprint.hardware.dtype
        self._told = ToolCounts()
        """The calls that results have told of: where rollouts overlap, each call counts in one of them."""
        self._writer = Writer()
        self._garbage = Garbage()

    async def start(self) -> None:
        """Start all workers."""
        with working("starting rollout workers"):
            await self._dispatcher.start()
        self._garbage.spare()

    def tools(self, split: str) -> dict[str, dict[str, Any]]:
        """The facts about a task set's tools that a report states."""
        facts: dict[str, dict[str, Any]] = self._dispatcher.tools[split]
        return facts

    def log_calls(self, log: CallLog) -> None:
        """No tool runs in this process."""

    async def collect(self, request: RolloutRequest, on_episode: OnEpisode | None = None) -> RolloutResult:
        """Play the request; every worker plays a part of it.

        Raises:
            EngineError: other weights are served than the request names, or no worker is left.
            ConfigError, ModelError, PluginError: a retry would not help.
        """
        begun = time.perf_counter()
        gc.collect()
        play = partial(self._dispatcher.play, split=request.split, greedy=request.greedy, version=request.version)
        episodes = await play_request(request, self._seed, play, on_episode)
        told, self._told = self._told, self._dispatcher.counts()
        return RolloutResult.of(request, episodes, time.perf_counter() - begun, self._told - told)

    async def rest(self) -> None:
        """Let the workers free memory until the next weights."""
        await self._dispatcher.rest()

    async def load_weights(self, weights: Any, version: int) -> None:
        """Serve these weights: those of learner workers, or tensors of this process."""
        parts = weights
        if isinstance(weights, Mapping):
            parts = await asyncio.to_thread(lambda: [ray.put(one) for one in in_parts(weights.items(), self._dtype)])
        await self._dispatcher.load_weights(parts, version)

    async def write(
        self, file: Path, step: int | None, trajectories: Sequence[Trajectory], numbers: TokenNumbers | None = None
    ) -> None:
        """Begin to write a file of trajectories; it is on disk when `written` returns.

        Raises:
            RunError: the one before it could not be written.
        """
        await self._writer.begin(file, step, trajectories, numbers)

    async def written(self) -> None:
        """Wait until all files are on disk.

        Raises:
            RunError: one could not be written.
        """
        await self._writer.wait()

    async def close(self) -> None:
        """Leave all workers to the crew, when all files are on disk."""
        self._garbage.restore()
        with suppress(RunError):  # `written` is there for whoever wants to know
            await self.written()
        await self._dispatcher.close()
        for relay in self._relays:
            relay.close()
