"""Baselines: what the policy is asked without tools, and with tools that say nothing."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from agent_r1_core.contracts.tasks import Passage
from agent_r1_core.contracts.tool import ToolContext, tool
from agent_r1_core.evaluation.baselines import BASELINES, REASON_AND_ACT, SilentTool, passages_text
from agent_r1_core.testing.trajectories import make_task

TASK = make_task("a", "Where was Ada born?", ("London",), metadata={"hops": 1})
QUESTION = {"role": "user", "content": "Where was Ada born?"}
CHAT = replace(TASK, prompt=[{"role": "system", "content": "Be brief."}, QUESTION])
PASSAGES = [Passage("Ada", "Born in London."), Passage("Bob", "Born in Rome.")]


def test_closed_book_asks_the_question_alone() -> None:
    asked = BASELINES["closed_book"].ask(TASK)
    assert (asked.id, asked.prompt, asked.answers) == (TASK.id, TASK.prompt, TASK.answers)
    assert asked.metadata == {"hops": 1, "baseline": "closed_book"}


def test_naive_rag_puts_the_passages_first() -> None:
    asked = BASELINES["naive_rag"].ask(TASK, passages_text(PASSAGES))
    assert asked.prompt == "Ada\nBorn in London.\n\nBob\nBorn in Rome.\n\nWhere was Ada born?"
    one = passages_text("Ada\nBorn in London.")
    assert BASELINES["naive_rag"].ask(TASK, one).prompt == "Ada\nBorn in London.\n\nWhere was Ada born?"
    assert BASELINES["naive_rag"].ask(TASK, passages_text([])).prompt == TASK.prompt


def test_react_adds_its_prompt_to_the_system_message() -> None:
    react = BASELINES["react"]
    for task, system in ((TASK, REASON_AND_ACT), (CHAT, f"Be brief.\n\n{REASON_AND_ACT}")):
        assert react.ask(task).prompt == [{"role": "system", "content": system}, QUESTION]
    assert BASELINES["base_tool_call"].ask(CHAT).prompt == CHAT.prompt


def test_naive_rag_keeps_the_other_messages() -> None:
    asked = BASELINES["naive_rag"].ask(CHAT, passages_text(PASSAGES[:1]))
    assert asked.prompt == [CHAT.prompt[0], QUESTION | {"content": "Ada\nBorn in London.\n\nWhere was Ada born?"}]
    with pytest.raises(ValueError, match="no user message"):
        BASELINES["naive_rag"].ask(replace(TASK, prompt=[]), passages_text(PASSAGES))


def test_a_silent_tool_looks_like_the_tool_and_says_nothing() -> None:
    @tool
    def wiki_search(query: str) -> str:
        """Find passages."""
        raise AssertionError("a silenced tool is never run")

    loud = wiki_search()
    silent = SilentTool(loud)
    arguments = silent.Arguments.model_validate({"query": "Ada"})
    context = ToolContext(episode="e", turn=0, task=TASK, rng=random.Random(0))
    assert silent.run(arguments, context) == "No passage found."
    assert (silent.name, silent.schema()) == ("wiki_search", loud.schema())
