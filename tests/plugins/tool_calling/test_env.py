"""The environment `tool_calling`, without a model, and how it finds answers in an action."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from agent_r1_tool_calling.env import INSTRUCTIONS, ToolCalling, find_answer
from agent_r1_tool_formats.hermes import Hermes

from agent_r1_core import Action, CallRecord, Step, Task, ToolCall, ToolResult, tool
from agent_r1_core.contracts.env import EnvServices
from agent_r1_core.testing import ToolEnvContract


@tool
def lookup(name: str) -> str:
    """Look a name up."""
    return f"{name} was born in Tavelo."


CALL = '<tool_call>{"name": "lookup", "arguments": {"name": "Karimo"}}</tool_call>'


class TestToolCalling(ToolEnvContract):
    component = ToolCalling
    tools = (lookup(),)
    tool_format = Hermes()
    actions = (CALL, "Hm.", "<answer>Tavelo</answer>")


async def call_tools(calls: Sequence[ToolCall]) -> list[ToolResult]:
    """Answer known calls, refuse the others."""
    texts = [(one.name, "Tavelo. " * 3 if one.name == "lookup" else f"Error: no tool {one.name}.") for one in calls]
    return [ToolResult(name, text, error=name != "lookup") for name, text in texts]


def make(form: Any = None, tools: bool = True, **options: Any) -> ToolCalling:
    given = {"lookup": lookup()} if tools else {}
    services = EnvServices(tools=given, tool_format=form or Hermes(), call_tools=call_tools)
    return ToolCalling(ToolCalling.Config(**options), services)


def step(env: ToolCalling, text: str, cut: bool = False) -> Step:
    return asyncio.run(env.step(Action(text, cut=cut)))


def opening(env: ToolCalling, prompt: Any = "Where?") -> list[Any]:
    return asyncio.run(env.reset(Task("t", prompt))).messages


class Describing(Hermes):
    """Describes the tools in its prompt, as a format must that passes no schemas to the template."""

    template_tools = False

    def system_prompt(self, schemas: Sequence[dict[str, Any]], answer: str) -> str:
        return f"{self.describe_tools(schemas)} " + answer


def test_what_a_format_did_not_mark_is_data_in_the_system_prompt() -> None:
    prompt = opening(make(Describing()))[0]["content"]
    ((start, stop),) = prompt.spans
    assert prompt[start:stop] == INSTRUCTIONS["tags"]
    assert "Look a name up." in prompt[:start]


def test_the_state_is_what_the_tools_have_told_in_any_order() -> None:
    def states(*names: str) -> list[str | None]:
        """The state before each of these calls, and after the last one."""

        async def answer(calls: Sequence[ToolCall]) -> list[ToolResult]:
            return [ToolResult(call.name, f"About {call.name}." * 9, error=call.name == "broken") for call in calls]

        env = ToolCalling(ToolCalling.Config(), EnvServices(tool_format=Hermes(), call_tools=answer))
        calls = [f'<tool_call>{{"name": "{name}", "arguments": {{}}}}</tool_call>' for name in names]
        first = asyncio.run(env.reset(Task("t", "Where?")))
        return [first.state_key, *(step(env, text).observation.state_key for text in calls)]

    start, one, both = states("a", "b")
    assert len({start, one, both}) == 3
    assert states("b", "a")[2] == both
    assert states("a", "a", "broken", "a") == [start, one, one, one, one]
    assert step(make(), "Hm.").observation.state_key == start


def test_the_prompt_tells_how_to_call_and_answer_unless_the_recipe_sets_it_and_the_tasks_own_is_kept():
    asked = {"role": "user", "content": "Where?"}
    system, user = opening(make())
    assert (system["role"], user) == ("system", asked)
    assert "<tool_call>" in system["content"]
    assert "<answer>" in system["content"]
    assert opening(make(system_prompt="")) == [asked]
    assert opening(make(system_prompt="Be brief."), [asked]) == [{"role": "system", "content": "Be brief."}, asked]
    task = [{"role": "system", "content": "You are kind."}, asked]
    system, user = opening(make(system_prompt="Be brief."), task)
    assert system == {"role": "system", "content": "Be brief.\n\nYou are kind."}
    assert user["content"] == "Where?"
    system, _ = opening(make(tools=False))
    assert "tool" not in system["content"]


def test_a_call_brings_its_result_which_may_be_cut():
    made = step(make(), f"I look. {CALL}")
    assert made.observation.messages == [{"role": "tool", "name": "lookup", "content": "Tavelo. " * 3}]
    assert made.calls == [CallRecord("lookup", {"name": "Karimo"})]
    assert not made.terminated
    cut = step(make(max_tool_characters=6), CALL)
    assert cut.observation.messages[0]["content"] == "Tavelo... [18 characters cut]"
    unknown = step(make(), '<tool_call>{"name": "fly", "arguments": {}}</tool_call>')
    assert (unknown.calls[0].error, unknown.errors) == ("Error: no tool fly.", [])


@pytest.mark.parametrize(
    ("style", "text", "answer"),
    [
        ("tags", "<answer>Tavelo</answer>", "Tavelo"),
        ("plain", "<think>hm</think> Tavelo", "Tavelo"),
        ("plain", f"I look. {CALL}", None),
    ],
)
def test_an_answer_ends_the_episode_and_a_cut_reply_is_none(style, text, answer):
    made = step(make(answer=style), text)
    assert (made.terminated, made.answer, made.errors) == (answer is not None, answer, [])
    made = step(make(answer=style), "I think that it is", cut=True)
    assert not made.terminated
    assert "cut off" in made.observation.messages[0]["content"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("<tool_call>{</tool_call>", "not valid JSON"),
        (f"{CALL} <answer>guess</answer>", "answer beside a tool call is not read"),
        ("<answer>x</answer> <tool_call>{", "not closed"),
        ("Hm.", "Error: no tool call and no answer"),
    ],
)
def test_malformed_actions_go_on_with_an_error(text, sentence):
    made = step(make(), text)
    last = made.observation.messages[-1]
    assert (made.terminated, made.answer, last["role"]) == (False, None, "user" if text == "Hm." else "tool")
    assert sentence in " ".join(message["content"] for message in made.observation.messages)
    assert made.errors


def test_an_argument_reaches_the_tool_to_the_letter_and_holds_no_answer():
    said = "<think>s</think> </think> <answer>5</answer> \\boxed{5}"
    made = step(make(), f"So. {Hermes().render_call(ToolCall('lookup', {'name': said}))}")
    assert ([call.arguments for call in made.calls], made.errors) == ([{"name": said}], [])


def test_an_action_of_nothing_but_errors_or_too_many_calls_is_answered_within_bounds():
    made = step(make(max_calls=2), "<tool_call></tool_call>" * 5000)
    assert len(made.errors) == 5000
    texts = [message["content"] for message in made.observation.messages]
    assert texts[2:] == ["Error: 4998 more errors are not shown."]
    made = step(make(max_calls=2), "\n".join([CALL] * 5))
    assert [call.error for call in made.calls] == [None, None]
    assert made.errors == ["5 calls at once are too many; only the first 2 were run"]
    assert "only the first 2 were run" in made.observation.messages[-1]["content"]


@pytest.mark.parametrize(
    ("style", "text", "answer"),
    [
        ("tags", "<answer> Tavelo\n</answer>", "Tavelo"),
        ("tags", "<answer>one <answer>two</answer>", "two"),
        ("tags", "<answer>one</answer> no, <answer>two</answer>", "two"),
        ("tags", "<answer>cut", None),
        ("tags", "<think><answer>one</answer></think>", None),
        ("boxed", "\\boxed{\\frac{1}{2}} is it", "\\frac{1}{2}"),
        ("boxed", "\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"),
        ("boxed", "\\boxed{1} then \\boxed{2", "1"),
        ("boxed", "} \\\\boxed{1}", "1"),
        ("boxed", "{ \\boxed{a \\boxed{b} c} } \\boxed{", "a \\boxed{b} c"),
        ("boxed", "\\boxed{1 \\} {2}", None),
        ("boxed", "\\boxed{" * 50_000 + "1}", "1"),
        ("plain", "<think>hm</think>42", "42"),
        ("plain", " ", None),
    ],
)
def test_an_answer_is_found_in_an_action(style, text, answer):
    assert find_answer(text, style) == answer
