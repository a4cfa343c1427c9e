"""The format `hermes`."""

from __future__ import annotations

import pytest
from agent_r1_tool_formats.hermes import Hermes

from agent_r1_core import ToolCall

SEARCH = {
    "type": "function",
    "function": {"name": "wiki_search", "description": "Search.", "parameters": {"type": "object", "properties": {}}},
}


@pytest.fixture
def hermes() -> Hermes:
    return Hermes()


def test_a_call_is_read_as_it_is_written(hermes):
    call = ToolCall("wiki_search", {"query": 'Who was "Karimo"?', "top": 3, "nested": {"é": [1, None]}})
    assert hermes.parse(f"I look.\n{hermes.render_call(call)}").calls == [call]
    assert hermes.render_call(ToolCall("wiki_search", {"query": "Karimo"})) == (
        '<tool_call>\n{"name": "wiki_search", "arguments": {"query": "Karimo"}}\n</tool_call>'
    )


def test_several_calls_keep_their_order(hermes):
    calls = [ToolCall("a", {"x": 1}), ToolCall("b", {"y": 2}), ToolCall("a", {"x": 3})]
    parsed = hermes.parse("\n".join(hermes.render_call(call) for call in calls))
    assert (parsed.calls, parsed.errors) == (calls, [])
    parsed = hermes.parse('<tool_call>{"name": "a", "arguments": "{\\"x\\": 1}"}</tool_call>')
    assert parsed.calls == [ToolCall("a", {"x": 1})], "arguments may be JSON in a string"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", "not valid JSON"),
        ('<tool_call>{"arguments": {}}</tool_call>', "names no tool"),
        ('<tool_call>{"name": 3, "arguments": {}}</tool_call>', "names no tool"),
        ('<tool_call>{"name": "a"}</tool_call>', "call of a has no arguments object"),
        ('<tool_call>{"name": "a", "arguments": "x"}</tool_call>', "no arguments object"),
        ('<tool_call>{"name": "a", "arguments": {}}', "not closed"),
        ('{"name": "a", "arguments": {}}</tool_call>', "not opened"),
    ],
)
def test_a_malformed_call_is_one_error(hermes, text, sentence):
    parsed = hermes.parse(text)
    assert parsed.calls == []
    assert len(parsed.errors) == 1
    assert sentence in parsed.errors[0]


def test_an_unclosed_call_hides_no_closed_one(hermes):
    parsed = hermes.parse('<tool_call>{"name": <tool_call>{"name": "a", "arguments": {}}</tool_call>')
    assert parsed.calls == [ToolCall("a", {})]
    assert parsed.errors == ["a tool call is not closed; end it with </tool_call>"]


def test_thoughts_are_not_calls(hermes):
    text = '<think>maybe <tool_call>{"name": "a", "arguments": {}}</tool_call></think>I know it.'
    parsed = hermes.parse(text)
    assert (parsed.calls, parsed.errors) == ([], [])


def test_the_prompt_tells_how_to_call_and_to_answer(hermes):
    prompt = hermes.system_prompt([SEARCH], "Answer in tags.")
    assert "<tool_call>" in prompt
    assert prompt.endswith("Answer in tags.")
    assert '"name": "wiki_search"' in hermes.describe_tools([SEARCH])
    assert hermes.system_prompt([], "Answer in tags.") == "Answer in tags."
