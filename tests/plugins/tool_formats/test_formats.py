"""The formats `hermes`, `native` and `search_tags`: the contract of tool formats, and what each reads and writes."""

from __future__ import annotations

from typing import Any

import pytest
from agent_r1_tool_formats.hermes import Hermes
from agent_r1_tool_formats.native import Native
from agent_r1_tool_formats.search_tags import SearchTags

from agent_r1_core import ToolCall
from agent_r1_core.chat import ChatTokenizer
from agent_r1_core.errors import ConfigError, ModelError
from agent_r1_core.testing import ToolFormatContract, tiny_tokenizer
from agent_r1_core.testing.model import CHAT_TEMPLATE


class TestHermes(ToolFormatContract):
    component = Hermes
    malformed = (
        *("<tool_call>{}</tool_call>", "<tool_call>", "<tool_call>search</tool_call>", "<tool_call>[]</tool_call>"),
        *("<tool_call>\n{]\n</tool_call>", '<tool_call>{"name": "search"'),
    )


class TestSearchTags(ToolFormatContract):
    component = SearchTags
    malformed = ("<search></search>", "<search>Agent", "<search>", "<search> </search>", "</search>")


@pytest.fixture
def hermes() -> Hermes:
    return Hermes()


def test_calls_are_written_as_models_write_them_keep_their_order_and_an_unclosed_one_hides_none(hermes):
    assert hermes.render_call(ToolCall("wiki_search", {"query": "Karimo"})) == (
        '<tool_call>\n{"name": "wiki_search", "arguments": {"query": "Karimo"}}\n</tool_call>'
    )
    calls = [ToolCall("a", {"x": 1}), ToolCall("b", {"y": 2}), ToolCall("a", {"x": 3})]
    parsed = hermes.parse("\n".join(hermes.render_call(call) for call in calls))
    assert (parsed.calls, parsed.errors) == (calls, [])
    parsed = hermes.parse('<tool_call>{"name": "a", "arguments": "{\\"x\\": 1}"}</tool_call>')
    assert parsed.calls == [ToolCall("a", {"x": 1})], "arguments may be JSON in a string"
    parsed = hermes.parse('<tool_call>{"name": <tool_call>{"name": "a", "arguments": {}}</tool_call>')
    assert parsed.calls == [ToolCall("a", {})]
    assert parsed.errors == ["a tool call is not closed; end it with </tool_call>"]
    parsed = hermes.parse('<think>maybe <tool_call>{"name": "a", "arguments": {}}</tool_call></think>I know it.')
    assert (parsed.calls, parsed.errors) == ([], [])


@pytest.mark.parametrize(
    ("form", "text", "sentence"),
    [
        (Hermes, "<tool_call>" + "[" * 100_000 + "</tool_call>", "not valid JSON"),
        (Hermes, '<tool_call>{"name": "f", "arguments": {"x": NaN}}</tool_call>', "not valid JSON"),
        (Hermes, '<tool_call>{"arguments": {}}</tool_call>', "names no tool"),
        (Hermes, '<tool_call>{"name": "a"}</tool_call>', "call of a has no arguments object"),
        (Hermes, '<tool_call>{"name": "a", "arguments": {}}', "not closed"),
        (Hermes, '{"name": "a", "arguments": {}}</tool_call>', "not opened"),
        (SearchTags, "<search>  </search>", "a search is empty"),
        (SearchTags, "Karimo</search>", "not opened"),
        (SearchTags, "<search>Karimo", "not closed"),
    ],
)
def test_a_malformed_call_is_one_error(form, text, sentence):
    parsed = form().parse(text)
    assert (parsed.calls, len(parsed.errors)) == ([], 1)
    assert sentence in parsed.errors[0]


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


WRITTEN = {
    "open_pattern": "\\[\\[call (?P<name>\\w+)",
    "close": "]]",
    "repeats": True,
    "content": "kv-lines",
    "content_args": {"line_sep": ";", "kv_sep": "="},
    "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
}
RESPONSES = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {"content": {"repeats": True, "join": ""}, "tool_calls": WRITTEN},
}
"""As a model's tokenizer has it whose calls look like `[[call add a=1;b=2]]`."""
CHAT = CHAT_TEMPLATE.replace(
    "message['content'] + '<|im_end|>\\n'", "message['content'] + calls(message) + '<|im_end|>\\n'"
)
CALLS = """\
{%- macro calls(message) -%}
{%- for call in message['tool_calls'] or [] -%}
{{- '[[call ' + call['function']['name'] + ' ' -}}
{%- for name, value in call['function']['arguments'].items() -%}{{- name ~ '=' ~ value ~ ';' -}}{%- endfor -%}
{{- ']]' -}}
{%- endfor -%}
{%- endmacro -%}
"""


def native(responses: Any = RESPONSES) -> tuple[Native, ChatTokenizer]:
    raw = tiny_tokenizer(CALLS + CHAT)
    raw.response_template = responses
    form, tokenizer = Native(), ChatTokenizer(raw)
    form.attach(tokenizer)
    return form, tokenizer


class TestNative(ToolFormatContract):
    component = Native
    malformed = TestHermes.malformed


def test_a_models_own_calls_are_written_and_read():
    form, tokenizer = native()
    form.bind([{"function": {"name": "add", "parameters": {"properties": {"a": {"type": "integer"}}}}}])
    parsed = form.parse("<think>[[call no]]</think>I add.\n[[call add a=1;b=2]] [[call add a=x]]")
    assert parsed.calls == [ToolCall("add", {"a": 1, "b": "2"}), ToolCall("add", {"a": "x"})]
    assert parsed.text == "I add."
    said = form.parse("<think>[[call no]]</think>I say. [[call say a=<think>so</think>]]")
    assert (said.calls, said.text) == ([ToolCall("say", {"a": "<think>so</think>"})], "I say.")
    late = form.parse("I add. <think>or [[call no a=1]]</think> [[call add a=1]]")
    assert (late.calls, late.text) == ([ToolCall("add", {"a": 1})], "I add.")
    assert form.render_call(parsed.calls[0]) == "[[call add a=1;b=2;]]"
    assert tokenizer.template.agrees_with(form)
    odd = form.render_call(ToolCall("say", {"a": "]] to"}))
    assert odd.startswith("[[call say a=]]"), "a call that is read otherwise costs whoever compares, not the run"
    assert "<tool_call>" not in form.system_prompt([WIKI], "Answer.")


def test_a_response_template_that_never_ends_is_refused(monkeypatch):
    monkeypatch.setattr("agent_r1_tool_formats.native._SECONDS", 0.5)
    slow = {**RESPONSES, "fields": {"content": {}, "tool_calls": {"open_pattern": "(a|aa)+$", "close": "]]"}}}
    form, _ = native(slow)
    with pytest.raises(ModelError, match="took longer than"):
        form.parse("a" * 80 + "b")
