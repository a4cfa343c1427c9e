"""A collector's episodes become a result that states how they were sampled."""

from __future__ import annotations

from typing import Any

import pytest
from stage import Stage, questions

from agent_r1_core.errors import EngineError, TaskError
from agent_r1_core.evaluation.evaluator import Prepared, evaluate_tasks
from agent_r1_core.testing import Cue, ScriptedPolicy
from agent_r1_core.trajectory import Task

TASKS = questions(3)


def evaluated(tasks: list[Task] = TASKS, tools: dict[str, Any] | None = None, **options: Any) -> tuple[Any, set[float]]:
    """The policy answers every question, and the engine is gone in task q2: an evaluation, and its temperatures."""
    temperatures = set()

    def say(cue: Cue) -> str:
        temperatures.add(cue.request.sampling.temperature)
        if "Name2" in cue.prompt:
            raise EngineError("no simulator")
        return "<answer>Tavelo</answer>"

    stage = Stage(ScriptedPolicy(say), max_retries=0)
    return stage.run(evaluate_tasks(stage.collector.collect, Prepared(tasks, tools or {}), **options)), temperatures


def test_a_greedy_evaluation_states_that_it_was_greedy() -> None:
    seen: list[Any] = []
    found, temperatures = evaluated(sampling={"temperature": 1.0, "max_new_tokens": 64}, on_episode=seen.append)
    assert found.result.sampling == {"greedy": True, "samples": 1, "temperature": 0.0, "max_new_tokens": 64}
    assert temperatures == {0.0}
    assert found.result.statuses == {"terminated": 2, "failed": 1}
    assert [trajectory.task.id for trajectory in found.trajectories] == ["q0", "q1", "q2"]
    assert list(found.sets) == [""]
    assert len(seen) == 3


def test_a_sampled_evaluation_states_its_temperature_and_pass_at_k() -> None:
    tools = {"wiki_search": {"passages": 3}}
    found, temperatures = evaluated(samples=4, greedy=False, sampling={"temperature": 0.7}, tools=tools)
    assert found.result.tools == tools
    assert temperatures == {1.0}
    assert found.result.sampling == {"greedy": False, "samples": 4, "temperature": 0.7}
    assert found.result.metrics["pass@4"].mean == 1.0
    assert "temperature 0.7" in found.result.sentence("pass@4")


def test_no_tasks_and_no_finished_episode_are_named() -> None:
    with pytest.raises(TaskError, match=r"set tasks\.eval"):
        evaluated([])
    with pytest.raises(TaskError, match="finished: EngineError: no simulator"):
        evaluated(TASKS[2:])
