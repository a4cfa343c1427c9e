"""The format `search_tags`."""

from __future__ import annotations

from typing import Any

import pytest
from agent_r1_tool_formats.search_tags import SearchTags

from agent_r1_core import ToolCall, ToolResult
from agent_r1_core.errors import ConfigError


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


def test_options_choose_tool_and_argument():
    form = SearchTags(SearchTags.Config(tool="calculator", argument="expression"))
    form.bind([WIKI, SUMS])
    assert form.parse("<search>1+1</search>").calls == [ToolCall("calculator", {"expression": "1+1"})]


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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("<search>  </search>", "a search is empty"),
        ("<search>Karimo", "not closed"),
        ("Karimo</search>", "not opened"),
    ],
)
def test_a_malformed_search_is_one_error(text, sentence):
    parsed = SearchTags().parse(text)
    assert parsed.calls == []
    assert len(parsed.errors) == 1
    assert sentence in parsed.errors[0]


def test_results_come_as_information_from_the_user():
    results = [ToolResult("wiki_search", "Karimo was born."), ToolResult("wiki_search", "Error: no.", error=True)]
    assert SearchTags().results(results) == [
        {
            "role": "user",
            "content": "<information>Karimo was born.</information>\n<information>Error: no.</information>",
        }
    ]


def test_the_prompt_tells_how_to_search():
    assert "<search>" in SearchTags().system_prompt([WIKI], "Answer.")
    assert SearchTags().system_prompt([], "Answer.") == "Answer."
