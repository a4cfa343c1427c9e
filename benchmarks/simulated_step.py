"""The controller's part of training steps with simulated workers: what it computes, how long a step takes, memory."""

from __future__ import annotations

import asyncio
import pickle
import statistics
import tempfile
import time
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import numpy
import pyarrow.parquet  # noqa: F401 - before time is taken
from memory import peak
from simulated import Load, Played, SimulatedWorker, tasks
from virtual_time import SIMULATION, Meter, run

from agent_r1_core.contracts.token_numbers import TokenNumbers
from agent_r1_core.distributed.dispatcher import Dispatcher
from agent_r1_core.rollout import RolloutRequest
from agent_r1_core.rollout.plan import EpisodePlan, plan_episodes
from agent_r1_core.rollout.result import RolloutResult
from agent_r1_core.runs.trajectory_file import write_trajectories
from agent_r1_core.trajectory import Trajectory

try:
    from ray.cloudpickle import dumps  # what Ray stores objects with
except ImportError:
    from pickle import dumps  # type: ignore[assignment]

PARTS = {
    "plans": "plan, deal",
    "jobs": "send jobs",
    "loop": "event loop",
    "reports": "unpickle",
    "metrics": "groups, metrics",
    "learner": "to learner",
    "files": "to writer",
}
"""Parts of the meter, and their columns."""

WRITTEN = 1024
"""Episodes of a step that are written; each of the others counts as long."""


Stored = tuple[bytes, list[bytes]]
"""A pickled value, and the buffers that are not in the pickle."""


class Simulation:
    """A dispatcher over simulated workers, and the steps of a training run around it.

    Args:
        episodes: of a step; at most `capacity` in flight in a worker.
        group: episodes of a task.
    """

    def __init__(self, load: Load, workers: int, episodes: int, capacity: int = 128, group: int = 8) -> None:
        self.meter = Meter(rest="loop")
        with self.meter.part(SIMULATION):
            self.played = Played(load, self.meter)
            self._tasks = tasks(episodes // group)
        self._load, self._workers, self._capacity, self._group = load, workers, capacity, group
        self.rows: list[dict[str, float]] = []
        """What each step took."""
        self._writer = 0.0
        """Processor seconds of the writer so far, which is another process."""
        self._written = 0.0
        """When it has written what it was given."""

    def run(self, steps: int) -> dict[str, float]:
        """Play steps; returns the medians, milliseconds of processor time for an episode by part."""
        with tempfile.TemporaryDirectory() as folder, peak() as memory:
            run(self.meter, self._steps(steps, Path(folder) / "step.parquet"))
        medians = {name: statistics.median(row[name] for row in self.rows) for name in self.rows[0]}
        return medians | {"peak MB": memory.bytes / 1e6, "in flight": float(self.played.most)}

    async def _steps(self, steps: int, file: Path) -> None:
        dispatcher = Dispatcher(lambda number: SimulatedWorker(number, self.played), self._workers, self._capacity)
        await dispatcher.start()
        for step in range(steps):
            before, reports, writer = dict(self.meter.seconds), self.played.reports, self._writer
            seconds, rollout, sent = await self._step(dispatcher, step, file)
            self.meter.switch(self.meter.switch(SIMULATION))  # counts up to now
            spent = {part: self.meter.seconds[part] - before.get(part, 0.0) for part in PARTS}
            episodes = len(self._tasks) * self._group
            self.rows.append(
                {PARTS[part]: 1000 * value / episodes for part, value in spent.items()}
                | {"ms/episode": 1000 * sum(spent.values()) / episodes}
                | {"share %": 100 * sum(spent.values()) / seconds, "s/step": seconds, "rollout s": rollout}
                | {
                    "reports/episode": (self.played.reports - reports) / episodes,
                    "KB to learner": sent / 1000 / episodes,
                    "writer ms/episode": 1000 * (self._writer - writer) / episodes,
                }
            )
        await dispatcher.close()

    async def _step(self, dispatcher: Dispatcher, step: int, file: Path) -> tuple[float, float, int]:
        """One step as the trainer makes it; returns its seconds, those of the rollout, and the learner's bytes."""
        loop, meter, finished = asyncio.get_running_loop(), self.meter, dict[int, Trajectory]()
        begun = loop.time()

        def keep(plan: EpisodePlan, trajectory: Trajectory) -> None:
            finished[plan.index] = trajectory

        with meter.part("plans"):
            request = RolloutRequest(self._tasks, self._group, step)
            counts, plans = dispatcher.counts(), plan_episodes(request, 0)
            playing = asyncio.ensure_future(dispatcher.play(plans, keep, split=request.split))
            await asyncio.sleep(0)  # it plans and deals until it waits for episodes
        await playing
        rollout_seconds = loop.time() - begun
        with meter.part("metrics"):
            episodes = [finished[plan.index] for plan in plans]
            finished.clear()
            rollout = RolloutResult.of(request, episodes, rollout_seconds, dispatcher.counts() - counts)
            assert rollout.metrics["rollout/episodes"] == len(plans)
        with meter.part("learner"):
            groups = dumps(rollout.groups, protocol=5)
        with meter.part(SIMULATION):
            answer, sent = _stored(_told(episodes)), len(groups)
            del groups
        await asyncio.sleep(self._load.update)
        with meter.part("learner"):
            numbers = pickle.loads(answer[0], buffers=answer[1])
        await asyncio.sleep(max(0.0, self._written - loop.time()))
        with meter.part("files"):
            sent_on = dumps(rollout.trajectories, protocol=5), _stored(numbers)
        seconds = loop.time() - begun
        with meter.part(SIMULATION):
            del rollout, episodes, numbers
            self._write(file, step, *sent_on)
        return seconds, rollout_seconds, sent

    def _write(self, file: Path, step: int, trajectories: bytes, numbers: Stored) -> None:
        """What the writer does while the next step is under way; if it gets many episodes, for the first of them."""
        begun, came = asyncio.get_running_loop().time(), time.thread_time()
        unpacked: list[Trajectory] = pickle.loads(trajectories)
        known, opened = pickle.loads(numbers[0], buffers=numbers[1]), time.thread_time()
        write_trajectories(file, step, unpacked[:WRITTEN], known)
        spent = opened - came + (time.thread_time() - opened) * max(1.0, len(unpacked) / WRITTEN)
        self._writer, self._written = self._writer + spent, begun + spent


def _stored(value: object) -> Stored:
    """What Ray makes of a value: arrays are copied beside what is pickled, and read where they are."""
    buffers: list[pickle.PickleBuffer] = []
    pickled = dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickled, [bytes(buffer.raw()) for buffer in buffers]


def _told(episodes: Sequence[Trajectory]) -> TokenNumbers:
    """What a learner without a critic answers."""
    ends = list(accumulate(one.tokens for one in episodes))
    spans = {one.id: (start, stop) for one, start, stop in zip(episodes, [0, *ends], ends, strict=False)}
    return TokenNumbers(spans, *(numpy.zeros(ends[-1], numpy.float32) for _ in range(2)))
