"""Supply: which steps are played ahead of the learner; LAW 7 says with which tasks, after an interruption too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from small_run import Notes

from agent_r1_core import Algorithm, EngineError, Group
from agent_r1_core.assembly.task_order import TaskOrder
from agent_r1_core.contracts.training import TrainingConfig
from agent_r1_core.evaluation.listener import Silence
from agent_r1_core.metrics import declared as metric
from agent_r1_core.rollout import OnEpisode, RolloutRequest, RolloutResult
from agent_r1_core.testing import make_task, make_trajectory
from agent_r1_core.training import supply as room
from agent_r1_core.training.supply import Collected, Supply

STEPS = 5
TASKS = [make_task(f"task {number}") for number in range(7)]
every_staleness = pytest.mark.parametrize("k", [0, 1, 2])


class Rollouts:
    """Plays each step with the weights that are served when it begins, as soon as its gate is open."""

    def __init__(self) -> None:
        self.served = 0
        self.requests: dict[int | str, RolloutRequest] = {}
        self.shut: dict[int | str, asyncio.Event] = {}
        self.versions: Callable[[], tuple[tuple[int, int], ...]] = lambda: ((self.served, 2),)
        """Of an action of two tokens."""

    async def collect(self, request: RolloutRequest, on_episode: OnEpisode | None = None) -> RolloutResult:
        """One episode for each task."""
        self.requests[request.round] = request
        groups = [Group(task, [make_trajectory([((1,), (2, 3))], task=task)]) for task in request.tasks]
        for group in groups:
            group.trajectories[0].turns[0].versions = self.versions()
        if request.round in self.shut:
            await self.shut[request.round].wait()
        for group in groups:
            on_episode(group.trajectories[0])
        return RolloutResult(groups)


def supply(k: int, rollouts: Rollouts, listener: Any = None, extra_rollouts: int = 0) -> Supply:
    """A supply over these rollouts, with an algorithm that keeps every group and always asks for one more."""
    step = {"tasks_per_step": 2, "samples_per_task": 1, "extra_rollouts": extra_rollouts}
    keeping = {"filter": lambda groups: groups, "filter_metrics": lambda groups, kept: {}}
    selection: Any = SimpleNamespace(**keeping, more_tasks=lambda groups, tasks: 1, algorithm=Algorithm())
    assembly: Any = SimpleNamespace(
        config=SimpleNamespace(training=TrainingConfig(steps=STEPS, max_staleness=k, **step)),
        train=SimpleNamespace(tasks=TASKS),
        rollouts=rollouts,
        tokenizer=SimpleNamespace(decode=str),
    )
    return Supply(assembly, selection, listener or Silence(), TaskOrder(len(TASKS), seed=3, shuffle=True), done=0)


async def learn(
    own: Supply, rollouts: Rollouts, last: int = STEPS, each: Callable[[int], Any] = lambda step: None
) -> list[Collected]:
    """Take steps one after the other, as the trainer does; `each` looks before a step's new weights are served."""
    found = []
    for step in range(1, last + 1):
        found.append(await own.take(step))
        for _ in range(10):  # while it is learnt from, the loop is free
            await asyncio.sleep(0)
        each(step)
        rollouts.served = step
    return found


@every_staleness
async def test_exactly_the_steps_that_may_run_ahead_have_begun_and_their_tokens_are_as_old_as_allowed(k: int) -> None:
    """Before a step is learnt from; and only without running ahead a rollout names its weights."""
    rollouts, begun = Rollouts(), dict[int, list[int | str]]()
    found = await learn(supply(k, rollouts), rollouts, each=lambda step: begun.update({step: list(rollouts.requests)}))
    assert begun == {step: list(range(1, min(step + k, STEPS) + 1)) for step in range(1, STEPS + 1)}
    assert [one.metrics[metric.ROLLOUT_STALENESS_MAX] for one in found] == [min(step, k) for step in range(STEPS)]
    named = list(range(STEPS)) if k == 0 else [None] * STEPS
    assert [request.version for request in rollouts.requests.values()] == named


@pytest.mark.parametrize(("k", "extras"), [(0, 3), (1, 0)])
async def test_an_algorithm_may_ask_for_more_tasks_within_a_step_up_to_a_bound(k: int, extras: int) -> None:
    """Where nothing runs ahead; no task comes twice in a step."""
    rollouts = Rollouts()
    for one in await learn(supply(k, rollouts, extra_rollouts=3), rollouts):
        tasks = [group.task.id for group in one.groups]
        assert len(set(tasks)) == len(tasks) == 2 + extras
    assert len(rollouts.requests) == STEPS * (1 + extras)


async def test_an_age_is_that_of_a_token_and_episodes_that_end_ahead_of_their_step_are_shown_when_it_comes() -> None:
    rollouts = Rollouts()
    rollouts.versions = lambda: ((0, 1), (1, 1))  # the weights change within every action
    _, second = await learn(supply(1, rollouts), rollouts, last=2)
    assert second.metrics == {metric.ROLLOUT_STALENESS: 0.5, metric.ROLLOUT_STALENESS_MAX: 1.0}
    shown, counts, rollouts = Notes(), list[list[int]](), Rollouts()

    def look(step: int) -> None:
        counts.append([done for done, *_ in shown.heard])
        shown.heard.clear()

    await learn(supply(2, rollouts, listener=shown), rollouts, each=look)
    assert counts == [[1, 2]] * STEPS


@pytest.mark.parametrize("k", [1, 2])
async def test_tokens_that_are_older_than_allowed_are_refused(k: int) -> None:
    own = supply(k, Rollouts())
    for step in range(1, k + 2):
        await own.take(step)  # and nobody serves what they made
    with pytest.raises(EngineError, match=rf"step {k + 2} got tokens that are {k + 1} versions old, .* is {k};"):
        await own.take(k + 2)


@every_staleness
async def test_an_interruption_waits_for_nothing_that_is_ahead(k: int) -> None:
    rollouts = Rollouts()
    rollouts.shut = {step: asyncio.Event() for step in range(1, STEPS + 1)}
    own = supply(k, rollouts)
    taken = asyncio.create_task(own.take(1))
    while 1 + k not in rollouts.requests:
        await asyncio.sleep(0)
    taken.cancel()
    await own.close()


async def test_a_step_is_idle_while_no_episode_is_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, rollouts, found = SimpleNamespace(now=100.0), Rollouts(), list[float]()
    monkeypatch.setattr(room, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    rollouts.shut[2] = asyncio.Event()

    def look(step: int) -> None:
        clock.now += 7  # learning from it
        found.append(own.idle_seconds())
        clock.now += 3  # a checkpoint between two steps
        if step == 1:
            rollouts.shut[2].set()

    own = supply(1, rollouts)
    clock.now += 60  # engine and tools start
    await learn(own, rollouts, last=3, each=look)
    assert found == [0.0, 7.0, 7.0]
    assert own.idle_seconds() == 3.0
