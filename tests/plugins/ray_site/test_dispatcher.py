"""The controller of rollout workers: every episode is played once, whoever is lost on the way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from agent_r1_ray import dispatcher as module
from agent_r1_ray.dealer import LOSSES
from agent_r1_ray.dispatcher import STARTS, Dispatcher
from agent_r1_ray.jobs import NoRoom, WorkerLost
from fake_workers import FakeWorker, plans

from agent_r1_core.errors import ConfigError, EngineError, LearnerLost
from agent_r1_core.rollout.plan import EpisodePlan
from agent_r1_core.trajectory import EndStatus, Trajectory

ENDED = WorkerLost("its process has ended")


class Crew:
    """Makes workers and remembers them; `own` has by number how one differs from a sound worker, `others` the rest."""

    def __init__(self, own: Mapping[int, Mapping[str, Any]] | None = None, **others: Any) -> None:
        self.workers: list[FakeWorker] = []
        self.notes: list[str] = []
        self._own, self._others = own or {}, others

    def make(self, number: int) -> FakeWorker:
        worker = FakeWorker(number, f"worker {len(self.workers)}")
        vars(worker).update(self._own.get(len(self.workers), self._others))
        self.workers.append(worker)
        return worker

    @asynccontextmanager
    async def dispatcher(self, workers: int, capacity: int = 8, deterministic: bool = False) -> AsyncIterator[Any]:
        """One that has started."""
        made = Dispatcher(self.make, workers, capacity, deterministic, self.notes.append)
        await made.start()
        yield made
        await made.close()


async def played(dispatcher: Dispatcher, episodes: list[EpisodePlan], **options: Any) -> dict[int, Trajectory]:
    """The episodes by their index; each must end once."""
    finished: dict[int, Trajectory] = {}

    def keep(plan: EpisodePlan, trajectory: Trajectory) -> None:
        assert plan.index not in finished
        assert (trajectory.task, trajectory.sample) == (plan.task, plan.sample)
        finished[plan.index] = trajectory

    await asyncio.wait_for(dispatcher.play(episodes, keep, **options), 30)
    assert sorted(finished) == [plan.index for plan in episodes]
    return finished


def raises(error: Exception, when: Callable[[EpisodePlan], bool] = lambda plan: True) -> Callable[[EpisodePlan], None]:
    """What happens to a worker under some episodes."""

    def happens(plan: EpisodePlan) -> None:
        if when(plan):
            raise error

    return happens


async def until(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0)


async def test_workers_share_the_episodes_by_task_and_get_no_more_at_once_than_they_serve() -> None:
    crew = Crew()
    async with crew.dispatcher(3) as dispatcher:
        await dispatcher.load_weights({}, 4)
        finished = await played(dispatcher, plans(12), version=4)
        assert Counter(one.reason for one in finished.values()) == {f"worker {k} under 4": 8 for k in range(3)}
        for worker in crew.workers:
            assert all({plan.task.id for plan in job.plans} == {job.plans[0].task.id} for job in worker.jobs)
        assert dispatcher.counts().hung == 12
        assert dispatcher.tools == {"train": {"search": {"passages": 1}}}
        with pytest.raises(EngineError, match="version 5, but the workers serve 4"):
            await dispatcher.play(plans(1), lambda plan, trajectory: None, version=5)
    gate = asyncio.Event()
    crew = Crew(gate=gate)
    async with crew.dispatcher(2, capacity=6) as dispatcher:
        playing = asyncio.create_task(played(dispatcher, plans(20)))
        for _ in range(20):
            await asyncio.sleep(0)
        assert [sum(len(job.plans) for job in worker.jobs) for worker in crew.workers] == [6, 6]
        gate.set()
        await playing


async def test_a_lost_worker_is_replaced_and_only_its_unfinished_episodes_are_played_again() -> None:
    seen: Counter[str] = Counter()

    def dies_of_it(plan: EpisodePlan) -> None:
        seen[plan.key] += 1
        if plan.sample == 1:
            raise ENDED

    crew = Crew({1: {"happens": dies_of_it}}, happens=lambda plan: seen.update([plan.key]))
    async with crew.dispatcher(2) as dispatcher:
        await dispatcher.load_weights({}, 7)
        await dispatcher.load_weights({}, 8)
        finished = await played(dispatcher, plans(8), version=8)
        assert all(one.reason.endswith("under 8") for one in finished.values())
        await until(lambda: len(crew.workers) > 2 and crew.workers[2].versions)
        assert crew.workers[1].killed
        assert crew.workers[2].versions == [8], "a replacement gets the newest weights, and no others"
        again = [key for key, times in seen.items() if times > 1]
        assert {key[-2:] for key in again} == {"/1"}, "a finished episode was played again"
        assert "worker 1 on nowhere is lost (its process has ended)" in crew.notes[0]
        await played(dispatcher, plans(4), version=8)
        assert crew.workers[2].jobs


async def test_a_worker_that_is_lost_while_it_starts_or_does_not_answer_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first one of a seat and a replacement; where there is no room, nobody waits for it three times."""
    dies = {"fails_to_start": ENDED}
    crew = Crew({0: dies, 1: {"happens": raises(ENDED)}, 2: dies, 3: dies})
    async with crew.dispatcher(1) as dispatcher:
        assert crew.workers[0].killed
        await played(dispatcher, plans(2))
        assert len(crew.workers) == 5
    for error, attempts in ((ENDED, STARTS), (NoRoom("there is no room"), 1)):
        crew = Crew(fails_to_start=error)
        with pytest.raises(EngineError, match=f"worker {attempts - 1} ended while it started: "):
            await crew.dispatcher(1).__aenter__()
        assert len(crew.workers) == attempts
    monkeypatch.setattr(module, "SILENCE", 0.05)
    crew = Crew({0: {"silent": True}})
    async with crew.dispatcher(2) as dispatcher:
        finished = await played(dispatcher, plans(4))
        assert "worker 0 under None" not in {one.reason for one in finished.values()}
        assert crew.workers[0].killed
        assert "has not answered" in crew.notes[0]


async def test_where_the_weights_are_gone_the_rollout_ends_as_if_the_learner_was_lost() -> None:
    """The other workers, which have them, do not matter: the run goes on from its checkpoint with new weights."""
    gone = LearnerLost("the machine that held the weights is gone")
    waits = {"gate": asyncio.Event()}  # which nobody sets
    crew = Crew({0: {"happens": raises(ENDED)}, 1: waits}, fails_to_load=gone)
    async with crew.dispatcher(2) as dispatcher:
        await dispatcher.load_weights({}, 1)
        for _ in range(2):
            with pytest.raises(LearnerLost, match="that held the weights is gone"):
                await dispatcher.play(plans(2), lambda plan, trajectory: None, version=1)


async def test_an_episode_under_which_worker_after_worker_is_lost_has_failed() -> None:
    dies_of_it = raises(ENDED, lambda plan: plan.task.id == "t2" and plan.sample == 0)
    async with Crew(happens=dies_of_it).dispatcher(2, capacity=2) as dispatcher:
        finished = await played(dispatcher, plans(6))
        failed = {index for index, one in finished.items() if one.status is EndStatus.FAILED}
        assert {4} <= failed <= {4, 5}, "only what shared its workers may fail with it"
        assert f"{LOSSES} rollout workers were lost under it" in finished[4].reason
        assert dispatcher.losses == LOSSES


async def test_an_error_without_remedy_ends_the_rollout_and_stops_the_other_jobs() -> None:
    broken = [True]
    breaks = raises(ConfigError("the template refuses"), lambda plan: plan.task.id == "t0" and bool(broken))
    crew = Crew(happens=breaks)
    async with crew.dispatcher(2) as dispatcher:
        with pytest.raises(ConfigError, match="refuses"):
            await dispatcher.play(plans(30), lambda plan, trajectory: None)
        assert any(worker.cancelled for worker in crew.workers)
        broken.clear()
        await played(dispatcher, plans(5))


async def test_a_run_says_why_it_cannot_go_on_without_workers() -> None:
    crew = Crew({0: {"happens": raises(ENDED)}}, fails_to_start=NoRoom("the cluster has no room for it"))
    async with crew.dispatcher(1) as dispatcher:
        for sentence in ("last rollout worker is lost .* has no room for it; mend that and resume", "worker is lost"):
            with pytest.raises(EngineError, match=sentence):
                await dispatcher.play(plans(1), lambda plan, trajectory: None)


async def test_in_deterministic_mode_the_order_of_the_tasks_alone_decides_who_plays() -> None:
    crew = Crew()
    async with crew.dispatcher(3, capacity=1, deterministic=True) as dispatcher:
        await played(dispatcher, plans(7))
    jobs = [[[plan.index for plan in job.plans] for job in worker.jobs] for worker in crew.workers]
    assert jobs == [[[0, 1, 2, 3]], [[4, 5, 6, 7]], [[8, 9, 10, 11, 12, 13]]]


async def test_a_replacement_that_cannot_take_the_weights_is_one_loss_and_no_cycle() -> None:
    crew = Crew({0: {"happens": raises(ENDED)}, 2: {"fails_to_load": RuntimeError("out of memory")}})
    async with crew.dispatcher(2) as dispatcher:
        await dispatcher.load_weights({}, 1)
        await played(dispatcher, plans(6), version=1)
        await until(lambda: len(crew.workers) > 3 and crew.workers[3].versions)
        for _ in range(50):
            await asyncio.sleep(0)
        assert dispatcher.losses == 1
        assert [worker.killed for worker in crew.workers] == [True, False, True, False]
        await played(dispatcher, plans(6), version=1)


async def test_a_replacement_rests_while_the_others_do() -> None:
    """It starts meanwhile, or it was just being given the weights of before."""
    loading = asyncio.Event()
    crew = Crew({3: {"weights": loading}})
    async with crew.dispatcher(2) as dispatcher:
        await dispatcher.load_weights({}, 1)
        await dispatcher.rest()
        crew.workers[0].lose()
        await until(lambda: len(crew.workers) > 2 and crew.workers[2].resting)
        assert crew.workers[2].versions == []
        await dispatcher.load_weights({}, 2)
        assert [worker.resting for worker in crew.workers[1:]] == [False, False]
        assert crew.workers[2].versions == [2]
        crew.workers[1].lose()
        await until(lambda: len(crew.workers) > 3)
        await dispatcher.rest()
        loading.set()
        await until(lambda: crew.workers[3].resting)
        assert crew.workers[3].versions == [2]
        await dispatcher.load_weights({}, 3)
        await until(lambda: crew.workers[3].versions == [2, 3])
        await played(dispatcher, plans(6), version=3)
        assert all(worker.jobs for worker in crew.workers[2:])
