"""A collector's episodes become a result that states how they were sampled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agent_r1_core.errors import TaskError
from agent_r1_core.evaluation.evaluate import ROUND, evaluate_tasks
from agent_r1_core.rollout import Collector, RolloutRequest, RolloutResult
from agent_r1_core.testing.trajectories import make_task, make_trajectory
from agent_r1_core.trajectory import EndStatus, Group, Task, Trajectory

TASKS = [make_task(name, "Where?", ("Paris",)) for name in ("a", "b", "c")]


class AnswersParis(Collector):
    """A collector whose policy always answers Paris; task `c` fails."""

    def __init__(self) -> None:
        self.asked: list[RolloutRequest] = []

    async def collect(
        self, request: RolloutRequest, on_episode: Callable[[Trajectory], None] | None = None
    ) -> RolloutResult:
        self.asked.append(request)
        out = RolloutResult()
        for task in request.tasks:
            lost = {"status": EndStatus.FAILED, "reason": "no simulator"} if task.id == "c" else {}
            made = [make_trajectory(task=task, sample=n, answer="Paris", **lost) for n in range(request.samples)]
            if lost:
                out.dropped.extend(made)
            else:
                out.groups.append(Group(task, made))
            for trajectory in made if on_episode else ():
                on_episode(trajectory)
        return out


def evaluated(collector: Collector, tasks: list[Task] = TASKS, **options: Any) -> Any:
    return asyncio.run(evaluate_tasks(collector.collect, tasks, **options))


def test_a_greedy_evaluation_states_that_it_was_greedy() -> None:
    collector, seen = AnswersParis(), []
    found = evaluated(collector, sampling={"temperature": 1.0, "max_new_tokens": 64}, on_episode=seen.append)
    assert collector.asked == [RolloutRequest(TASKS, 1, ROUND, greedy=True, split="eval")]
    assert found.result.sampling == {"greedy": True, "samples": 1, "temperature": 0.0, "max_new_tokens": 64}
    assert found.result.statuses == {"terminated": 2, "failed": 1}
    assert [trajectory.task.id for trajectory in found.trajectories] == ["a", "b", "c"]
    assert list(found.sets) == [""]
    assert len(seen) == 3


def test_a_sampled_evaluation_states_its_temperature_and_pass_at_k() -> None:
    tools = {"wiki_search": {"passages": 3}}
    found = evaluated(AnswersParis(), samples=4, greedy=False, sampling={"temperature": 0.7}, tools=tools)
    assert found.result.tools == tools
    assert found.result.sampling == {"greedy": False, "samples": 4, "temperature": 0.7}
    assert found.result.metrics["pass@4"].mean == 1.0
    assert "temperature 0.7" in found.result.sentence("pass@4")


def test_no_tasks_and_no_finished_episode_are_named() -> None:
    with pytest.raises(TaskError, match=r"set tasks\.eval"):
        evaluated(AnswersParis(), [])
    with pytest.raises(TaskError, match="finished: no simulator"):
        evaluated(AnswersParis(), TASKS[2:])
