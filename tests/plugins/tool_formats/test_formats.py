"""The formats `hermes` and `search_tags`: the contract of tool formats, and what each reads and writes."""

from __future__ import annotations

from typing import Any

import pytest
from agent_r1_tool_formats.hermes import Hermes
from agent_r1_tool_formats.search_tags import SearchTags

from agent_r1_core import ToolCall
from agent_r1_core.errors import ConfigError
from agent_r1_core.testing import ToolFormatContract


class TestHermes(ToolFormatContract):
    component = Hermes
    malformed = (
        "<tool_call>{}</tool_call>",
        "<tool_call>",
        "<tool_call>search</tool_call>",
        "<tool_call>\n{]\n</tool_call>",
        '<tool_call>{"name": "search"',
        "<tool_call>[]</tool_call>",
    )


class TestSearchTags(ToolFormatContract):
    component = SearchTags
    malformed = ("<search></search>", "<search>Agent", "<search>", "<search> </search>", "</search>")


@pytest.fixture
def hermes() -> Hermes:
    return Hermes()


def test_a_call_is_written_as_models_write_it(hermes):
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
    ("form", "text", "sentence"),
    [
        (Hermes, "<tool_call>" + "[" * 100_000 + "</tool_call>", "not valid JSON"),
        (Hermes, '<tool_call>{"arguments": {}}</tool_call>', "names no tool"),
        (Hermes, '<tool_call>{"name": "a"}</tool_call>', "call of a has no arguments object"),
        (Hermes, '<tool_call>{"name": "a", "arguments": {}}', "not closed"),
        (Hermes, '{"name": "a", "arguments": {}}</tool_call>', "not opened"),
        (SearchTags, "<search>  </search>", "a search is empty"),
        (SearchTags, "<search>Karimo", "not closed"),
        (SearchTags, "Karimo</search>", "not opened"),
    ],
)
def test_a_malformed_call_is_one_error(form, text, sentence):
    parsed = form().parse(text)
    assert (parsed.calls, len(parsed.errors)) == ([], 1)
    assert sentence in parsed.errors[0]


def test_an_unclosed_call_hides_no_closed_one_and_thoughts_are_not_calls(hermes):
    parsed = hermes.parse('<tool_call>{"name": <tool_call>{"name": "a", "arguments": {}}</tool_call>')
    assert parsed.calls == [ToolCall("a", {})]
    assert parsed.errors == ["a tool call is not closed; end it with </tool_call>"]
    parsed = hermes.parse('<think>maybe <tool_call>{"name": "a", "arguments": {}}</tool_call></think>I know it.')
    assert (parsed.calls, parsed.errors) == ([], [])


def schema(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}


WIKI = schema("wiki_search", top={"type": "integer"}, text={"anyOf": [{"type": "string"}, {"type": "array"}]})
SUMS = schema("calculator", expression={"type": "string"})


def test_a_search_calls_the_one_tool_by_its_first_text_argument():
    form = SearchTags()
    form.bind([WIKI])
    parsed = form.parse("Let me see. <search> Karimo </search>")
    assert parsed.calls == [ToolCall("wiki_search", {"text": "Karimo"})]
    assert form.parse(form.render_call(parsed.calls[0])).calls == parsed.calls
    form = SearchTags(SearchTags.Config(tool="calculator", argument="expression"))
    form.bind([WIKI, SUMS])
    assert form.parse("<search>1+1</search>").calls == [ToolCall("calculator", {"expression": "1+1"})]
    assert "<search>" in form.system_prompt([WIKI], "Answer.")
    assert form.system_prompt([], "Answer.") == "Answer."


@pytest.mark.parametrize(
    ("options", "schemas", "sentence"),
    [
        ({}, [WIKI, SUMS], "calls one tool, but the tools are wiki_search, calculator"),
        ({"tool": "other"}, [WIKI], "set to call 'other'"),
        ({"argument": "top"}, [WIKI], "no argument 'top' that takes text"),
        ({}, [schema("clock")], "clock has no argument that takes text"),
    ],
)
def test_a_tool_that_cannot_be_called_is_a_configuration_error(options, schemas, sentence):
    with pytest.raises(ConfigError, match=sentence):
        SearchTags(SearchTags.Config(**options)).bind(schemas)
