"""What a rollout worker tells: errors at once, and whoever takes it over nothing of what it played before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from agent_r1_ray import relay
from agent_r1_ray.host import RolloutHost
from agent_r1_ray.jobs import Job, Report
from fake_workers import plans

from agent_r1_core.errors import ConfigError, EngineError
from agent_r1_core.rollout.plan import EpisodePlan
from agent_r1_core.tools.tool_counts import ToolCounts
from agent_r1_core.trajectory import EndStatus, Trajectory

LONG = 60.0


class Stage:
    """A collector, and its stage, whose episodes end when they are told to."""

    def __init__(self) -> None:
        self.collector = self
        self.ends: dict[str, Callable[[], None]] = {}
        """By the episode's key."""
        self.playing: list[asyncio.Future[None]] = []
        self.dead: EngineError | None = None
        self.rested = 0

    async def rest(self) -> None:
        self.rested += 1

    async def play(self, episodes: Sequence[EpisodePlan], keep: Any, greedy: bool) -> None:
        self.playing.append(asyncio.get_running_loop().create_future())
        for plan in episodes:
            self.ends[plan.key] = partial(self._end, plan, keep)
        await self.playing[-1]

    def _end(self, plan: EpisodePlan, keep: Any) -> None:
        status = EndStatus.TERMINATED if self.dead is None else EndStatus.FAILED
        keep(plan, Trajectory(plan.task, plan.sample, status=status))

    def counts(self) -> ToolCounts:
        return ToolCounts(hung=len(self.playing))


class Played:
    """A host that plays the given calls, each with so many tasks of two episodes."""

    def __init__(self, *tasks: int) -> None:
        self.stage = Stage()
        rollouts: Any = SimpleNamespace(
            stages={"train": self.stage}, broken=lambda: self.stage.dead, rest=self.stage.rest
        )
        self.host = RolloutHost(rollouts)
        self.jobs: list[Job] = []
        for call, count in enumerate(tasks):
            named = [replace(plan, key=f"{call}/{plan.key}") for plan in plans(count)]
            pairs = [named[k : k + 2] for k in range(0, 2 * count, 2)]
            self.jobs += [Job(10 * call + k, call, "train", False, 0, pair) for k, pair in enumerate(pairs)]

    async def submit(self, first: int = 0, last: int | None = None) -> None:
        """Give the host its jobs."""
        await self.host.submit(self.jobs[first:last])
        await settle()

    async def cancel(self) -> None:
        await self.host.cancel([job.id for job in self.jobs])

    async def asked(self) -> asyncio.Task[Report]:
        """A report that is being waited for."""
        report = asyncio.ensure_future(self.host.report(LONG, 100))
        await settle()
        return report

    async def end(self, job: int, episode: int) -> None:
        """Let an episode end, and everybody hear of it."""
        self.stage.ends[self.jobs[job].plans[episode].key]()
        await settle()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_nobody_waits_for_more_where_something_is_wrong() -> None:
    played = Played(2)
    await played.submit()
    await played.end(0, 0)
    report = await played.asked()
    played.stage.playing[1].set_exception(ConfigError("the template refuses the conversation"))
    told = await report
    ((job, error),) = told.broken
    assert told.urgent
    assert (job, str(error)) == (played.jobs[1].id, "the template refuses the conversation")
    report = await played.asked()
    played.stage.dead = EngineError("out of memory")
    await played.end(0, 1)
    with pytest.raises(EngineError, match="out of memory"):
        await report
    await played.cancel()


async def test_a_relay_passes_on_soon_what_somebody_waits_for_and_gathers_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay, "_GATHER", LONG)
    monkeypatch.setattr(relay, "_SOON", 0.0)
    played, passing = Played(1), relay.RelayActor(SimpleNamespace(load_plugin_files=lambda: None))  # type: ignore[arg-type]

    async def direct(host: RolloutHost, method: str, most: int) -> Report:
        return await host.report(0.0, most)

    monkeypatch.setattr(relay, "direct", direct)
    await played.submit()
    news = asyncio.ensure_future(passing.news())
    for episode in (0, 1):
        await passing.call([(episode, played.host, "report", [100])])
        assert not news.done()
        await played.end(0, episode)
        await asyncio.sleep(0.1)
    (answers, _), _ = await asyncio.wait_for(news, LONG / 2)  # the second one ends the call
    assert [(number, report.urgent) for number, report, _ in answers] == [(0, False), (1, True)]


async def test_who_takes_a_worker_over_hears_nothing_of_what_it_played_before() -> None:
    played = Played(2, 1)
    await played.submit(0, 2)
    await played.end(0, 0)
    late = await played.asked()  # on its way, though nobody waits for it any more
    played.host = await played.host.hand_over()
    assert played.stage.rested == 1
    await played.submit(2)
    await played.end(2, 0)
    await played.end(2, 1)
    report = await played.host.report(LONG, 100)
    assert [job for job, _, _ in report.finished] == [10, 10]
    assert report.counts.hung == 1
    late.cancel()
    await played.host.cancel([10])
