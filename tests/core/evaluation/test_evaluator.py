"""What a policy is asked in an evaluation and by a baseline, and that the result states how it was sampled."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from stage import Stage, questions

from agent_r1_core import EngineError, EpisodeError, Passage, Task, TaskError, ToolContext, tool
from agent_r1_core.evaluation.baselines import BASELINES, REASON_AND_ACT, SilentTool, passages_text
from agent_r1_core.evaluation.evaluator import Prepared, evaluate_tasks
from agent_r1_core.testing import Cue, ScriptedPolicy, make_task

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


def test_an_evaluation_states_how_it_was_sampled() -> None:
    seen, tools = list[Any](), {"wiki_search": {"passages": 3}}
    found, temperatures = evaluated(sampling={"temperature": 1.0, "max_new_tokens": 64}, on_episode=seen.append)
    assert found.result.sampling == {"greedy": True, "samples": 1, "temperature": 0.0, "max_new_tokens": 64}
    assert temperatures == {0.0}
    assert found.result.statuses == {"terminated": 2, "failed": 1}
    assert [trajectory.task.id for trajectory in found.trajectories] == ["q0", "q1", "q2"]
    assert list(found.sets) == [""]
    assert len(seen) == 3
    found, temperatures = evaluated(samples=4, greedy=False, sampling={"temperature": 0.7}, tools=tools)
    assert found.result.tools == tools
    assert temperatures == {1.0}
    assert found.result.sampling == {"greedy": False, "samples": 4, "temperature": 0.7}
    assert found.result.metrics["pass@4"].mean == 1.0
    assert "temperature 0.7" in found.result.sentence("pass@4")


def test_the_records_keep_the_tasks_as_their_source_gave_them_and_their_lack_is_named() -> None:
    worded = [replace(task, prompt=f"In other words: {task.prompt}") for task in TASKS]
    found, _ = evaluated(worded, asked=TASKS, set_name="films")
    assert [one.question for one in found.episodes] == [task.prompt for task in TASKS]
    assert {one.set for one in found.episodes} == {"films"}
    with pytest.raises(TaskError, match=r"set tasks\.eval"):
        evaluated([])
    with pytest.raises(EpisodeError, match="finished: EngineError: no simulator"):
        evaluated(TASKS[2:])


TASK = make_task("a", "Where was Ada born?", ("London",), metadata={"hops": 1})
QUESTION = {"role": "user", "content": "Where was Ada born?"}
CHAT = replace(TASK, prompt=[{"role": "system", "content": "Be brief."}, QUESTION])
PASSAGES = [Passage("Ada", "Born in London."), Passage("Bob", "Born in Rome.")]


def test_what_baselines_ask() -> None:
    closed, rag, react = (BASELINES[name] for name in ("closed_book", "naive_rag", "react"))
    asked = closed.ask(TASK)
    assert (asked.id, asked.prompt, asked.answers) == (TASK.id, TASK.prompt, TASK.answers)
    assert asked.metadata == {"hops": 1, "baseline": "closed_book"}
    for found, prompt in (
        (PASSAGES, "Ada\nBorn in London.\n\nBob\nBorn in Rome.\n\nWhere was Ada born?"),
        ("Ada\nBorn in London.", "Ada\nBorn in London.\n\nWhere was Ada born?"),
        ([], TASK.prompt),
    ):
        assert rag.ask(TASK, passages_text(found)).prompt == prompt
    asked = rag.ask(CHAT, passages_text(PASSAGES[:1]))
    assert asked.prompt == [CHAT.prompt[0], QUESTION | {"content": "Ada\nBorn in London.\n\nWhere was Ada born?"}]
    with pytest.raises(ValueError, match="no user message"):
        rag.ask(replace(TASK, prompt=[]), passages_text(PASSAGES))
    for task, system in ((TASK, REASON_AND_ACT), (CHAT, f"Be brief.\n\n{REASON_AND_ACT}")):
        assert react.ask(task).prompt == [{"role": "system", "content": system}, QUESTION]
    assert BASELINES["base_tool_call"].ask(CHAT).prompt == CHAT.prompt


def test_a_silent_tool_looks_like_the_tool_and_says_nothing() -> None:
    @tool
    def wiki_search(query: str) -> str:
        """Find passages."""
        raise AssertionError("a silenced tool is never run")

    loud, silent = wiki_search(), SilentTool(wiki_search())
    context = ToolContext(episode="e", turn=0, task=TASK, rng=random.Random(0))
    assert silent.run(silent.Arguments(query="Ada"), context) == "No passage found."
    assert (silent.name, silent.schema()) == ("wiki_search", loud.schema())
