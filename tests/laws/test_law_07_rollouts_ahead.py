"""LAW 7: where rollouts run ahead, the tokens of a group stem from versions at most training.max_staleness apart, each
recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from agent_r1_ray.dispatcher import Dispatcher
from fake_workers import FakeWorker, plans
from small_run import Terminated, run_once

from agent_r1_core.runs.run import Run

CHANGED = {"deterministic": "false", "evaluation__every": 0, "evaluation__at_end": "false", "checkpoint__best": "null"}


def versions(run: Run, step: int) -> list[set[int]]:
    """Of each group of a step; every token has one."""
    found: dict[str, set[int]] = {}
    for trajectory in run.read_trajectories(step):
        for turn in trajectory.turns:
            assert sum(tokens for _, tokens in turn.versions) == turn.tokens > 0
        found.setdefault(trajectory.task.id, set()).update(trajectory.versions)
    return list(found.values())


def test_the_versions_of_a_group_are_at_most_so_far_apart_also_in_a_resumed_run(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt, match=r"stopped after step [23] of 6"):
        run_once(folder, "ahead", 6, listener=Terminated(), training__max_staleness=1, **CHANGED)
    ahead = run_once(folder, "ahead", 6, resume=True, training__max_staleness=1, **CHANGED)
    assert [line["step"] for line in ahead.metrics()] == [1, 2, 3, 4, 5, 6]
    for step in range(1, 7):
        groups = versions(ahead, step)
        assert len(groups) == 2
        assert all(group <= {step - 2, step - 1} for group in groups), "older than allowed, or not yet there"
    assert max(line["rollout/staleness_max"] for line in ahead.metrics()) == 1.0
    together = run_once(folder, "together", 6, **CHANGED)
    for step in range(1, 7):
        assert versions(together, step) == [{step - 1}] * 2
        played = [[one.task.id for one in run.read_trajectories(step)] for run in (ahead, together)]
        assert played[0] == played[1], "running ahead, or an interruption, changed the tasks of a step"


async def test_weights_that_come_while_a_new_worker_takes_those_of_before_reach_it_before_any_episode() -> None:
    loading, workers, reasons = asyncio.Event(), list[FakeWorker](), list[str]()

    def make(number: int) -> FakeWorker:
        workers.append(FakeWorker(number, f"worker {len(workers)}"))
        if len(workers) == 3:
            workers[-1].weights = loading
        return workers[-1]

    dispatcher = Dispatcher(make, 2, 8, False, lambda note: None)
    await dispatcher.start()
    await dispatcher.load_weights({}, 1)
    workers[0].lose()
    while len(workers) < 3:
        await asyncio.sleep(0)
    await dispatcher.load_weights({}, 2)
    loading.set()
    for _ in range(20):
        await asyncio.sleep(0)
    await dispatcher.play(plans(20), lambda plan, trajectory: reasons.append(trajectory.reason), version=2)
    await dispatcher.close()
    assert workers[2].versions == [1, 2]
    assert set(reasons) == {"worker 1 under 2", "worker 2 under 2"}
