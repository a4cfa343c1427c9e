"""Rollout workers without processes, for tests of the controller; and what a run must have that lost some."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from agent_r1_ray.jobs import Job, Report, WorkerLost

from agent_r1_core.rollout import RolloutRequest
from agent_r1_core.rollout.plan import EpisodePlan, plan_episodes
from agent_r1_core.runs.run import Run
from agent_r1_core.tools.tool_counts import ToolCounts
from agent_r1_core.trajectory import Task, Trajectory


def plans(tasks: int) -> list[EpisodePlan]:
    """The episodes of some tasks, two of each."""
    return plan_episodes(RolloutRequest([Task(f"t{k}", "?") for k in range(tasks)], 2), 0)


def check_complete(run: Run, steps: int) -> None:
    """Every step is there once, with all its episodes."""
    assert [line["step"] for line in run.metrics()] == run.trajectory_steps() == list(range(1, steps + 1))
    for line in run.metrics():
        assert line["rollout/episodes"] == len(run.read_trajectories(int(line["step"]))) == 6
    assert (run.path / "model" / "model.safetensors").is_file()


class FakeWorker:
    """Plays an episode by writing down who played it under which weights.

    Args:
        happens: called before each episode; whatever it raises happens to the whole worker.
        gate: episodes wait for it.
    """

    def __init__(
        self,
        number: int,
        name: str,
        happens: Callable[[EpisodePlan], None] = lambda plan: None,
        gate: asyncio.Event | None = None,
    ) -> None:
        self.number, self.name, self.place = number, name, "nowhere"
        self.happens, self.gate = happens, gate
        self.jobs: list[Job] = []
        self.versions: list[int] = []
        self.cancelled: list[int] = []
        self.killed = False
        self.silent = False
        self.fails_to_start: Exception | None = None
        self.fails_to_load: Exception | None = None
        self.weights = asyncio.Event()
        """Loading waits for it."""
        self.weights.set()
        self.resting = False
        self._finished: list[tuple[int, int, Trajectory]] = []
        self._broken: list[tuple[int, Exception]] = []
        self._lost: WorkerLost | None = None
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> dict[str, dict[str, Any]]:
        if self.fails_to_start is not None:
            raise self.fails_to_start
        return {"train": {"search": {"passages": 1}}}

    async def submit(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.jobs.append(job)
            self._tasks.append(asyncio.create_task(self._play(job)))

    async def _play(self, job: Job) -> None:
        for plan in job.plans:
            if self.gate is not None:
                await self.gate.wait()
            await asyncio.sleep(0)
            try:
                self.happens(plan)
            except WorkerLost as error:
                self._lost = error
            except Exception as error:
                self._broken.append((job.id, error))
            else:
                reason = f"{self.name} under {self.versions[-1] if self.versions else None}"
                self._finished.append((job.id, plan.index, Trajectory(plan.task, plan.sample, reason=reason)))
            self._news.set()
            if self._lost is not None:
                return

    def lose(self) -> None:
        """The worker dies."""
        self._lost = WorkerLost("its process has ended")
        self._news.set()

    async def report(self, gather: float, most: int) -> Report:
        await self._news.wait()
        self._news.clear()
        if self.silent:
            await asyncio.Event().wait()
        finished, self._finished = self._finished, []
        broken, self._broken = self._broken, []
        if self._lost is not None and not finished:
            raise self._lost
        if self._lost is not None:
            self._news.set()
        return Report(finished, broken, ToolCounts(hung=len(self.jobs)))

    async def load_weights(self, weights: Any, version: int) -> None:
        if self.fails_to_load is not None:
            raise self.fails_to_load
        await self.weights.wait()
        self.versions.append(version)
        self.resting = False

    async def rest(self) -> None:
        self.resting = True

    async def cancel(self, jobs: Sequence[int]) -> None:
        self.cancelled += jobs

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    def kill(self) -> None:
        self.killed = True
        for task in self._tasks:
            task.cancel()
