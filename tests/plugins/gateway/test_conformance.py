"""Every row of docs/apis.md, with a value as the SDKs' types describe it; and the page shows every row."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from agent_r1_gateway.dialects import chat, messages, responses
from agent_r1_gateway.dialects.fields import Dialect, Effect
from agent_r1_gateway.server import DIALECTS
from agent_r1_gateway.wire import ChatMessage, ChatRequest, Refused, Reply, TokenLogprob

from .conftest import recorded, refused_field

TITLES = {"chat": "OpenAI Chat Completions", "messages": "Anthropic Messages", "responses": "OpenAI Responses"}
BEGIN, END = "<!-- fields -->\n", "<!-- end of fields -->\n"
HELLO = {"role": "user", "content": "Hello"}
LEAST: Mapping[str, dict[str, Any]] = {
    "chat": {"model": "policy", "messages": [HELLO]},
    "messages": {"model": "policy", "messages": [HELLO], "max_tokens": 50},
    "responses": {"model": "policy", "input": "Hello"},
}
"""The smallest request that each API takes."""

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}}
SEARCH = {"name": "search", "description": "Search."}
READ = ({"type": "function", "function": SEARCH | {"parameters": SCHEMA}},)
CHAT_TOOL = {"type": "function", "function": SEARCH | {"parameters": SCHEMA, "strict": True}}
MESSAGES_TOOL = SEARCH | {"input_schema": SCHEMA}
RESPONSES_TOOL = {"type": "function", **SEARCH, "parameters": SCHEMA, "strict": True}
REPLY = Reply("r1", 1, "Hi", "hm", (), logprobs=(TokenLogprob("Hi", -0.5),))

EXAMPLES: Mapping[str, Mapping[str, list[Any]]] = recorded("field_examples")
"""By API and field: a value of a field without effect; what is refused of refused fields and of honoured ones."""

WRONG: Mapping[str, list[Any]] = {
    "include": ["all"],
    "input": [None, [], 7],
    "instructions": [["x"]],
    "logprobs": [5],
    "messages": [None, [], "Hello", {"role": "user"}],
    "model": [None, "", 5, ["policy"]],
    "stop": [5, "", {}],
    "stop_sequences": [5, "", {}],
    "stream": ["yes", 1],
    "stream_options": [[]],
    "system": [5],
    "tools": ["search"],
    **{name: [0, 2.5, "50", True] for name in ("max_completion_tokens", "max_output_tokens", "max_tokens")},
}
"""What is refused of an honoured field in every API, for its type or its size."""

Shown = Callable[[ChatRequest], Any]


def ends_with_usage(request: ChatRequest) -> bool:
    """Whether the last chunk of a stream tells the usage."""
    return chat.events(REPLY, request)[-2][1].get("usage") is not None  # type: ignore[union-attr]


def sealed(request: ChatRequest) -> str | None:
    found: str | None = responses.write(REPLY, request)["output"][0]["encrypted_content"]
    return found


def recalled(request: ChatRequest) -> bool:
    """Whether a later request can refer to the reply."""
    try:
        return bool(responses.recall({"previous_response_id": "resp_r1"}, lambda: {"r1": (request, REPLY)}))
    except Refused:
        return False


HONOURED: Mapping[str, Mapping[str, tuple[dict[str, Any], str | Shown, Any]]] = {
    "chat": {
        "logprobs": ({"logprobs": True}, lambda it: chat.write(REPLY, it)["choices"][0]["logprobs"] is None, False),
        "max_completion_tokens": ({"max_completion_tokens": 10, "max_tokens": 20}, "max_tokens", 10),
        "max_tokens": ({"max_completion_tokens": 20, "max_tokens": 10}, "max_tokens", 10),
        "messages": ({"messages": [HELLO | {"content": "Ho"}]}, "messages", (ChatMessage("user", "Ho"),)),
        "model": ({"model": "small"}, lambda it: chat.write(REPLY, it)["model"], "small"),
        "stop": ({"stop": ["a", "b"]}, "stop", ("a", "b")),
        "stream": ({"stream": True}, "stream", True),
        "stream_options": ({"stream_options": {"include_usage": True}, "stream": True}, ends_with_usage, True),
        "tool_choice": ({"tools": [CHAT_TOOL], "tool_choice": "none"}, "tools", ()),
        "tools": ({"tools": [CHAT_TOOL], "tool_choice": "auto"}, "tools", READ),
    },
    "messages": {
        "max_tokens": ({"max_tokens": 10}, "max_tokens", 10),
        "messages": ({"messages": [HELLO | {"content": "Ho"}]}, "messages", (ChatMessage("user", "Ho"),)),
        "model": ({"model": "small"}, lambda it: messages.write(REPLY, it)["model"], "small"),
        "output_config": ({"output_config": {"effort": "high"}}, "ignored", ("output_config.effort",)),
        "stop_sequences": ({"stop_sequences": list("abcde")}, "stop", tuple("abcde")),
        "stream": ({"stream": True}, "stream", True),
        "system": ({"system": "Be brief."}, lambda it: it.messages[0], ChatMessage("system", "Be brief.")),
        "tool_choice": ({"tools": [MESSAGES_TOOL], "tool_choice": {"type": "none"}}, "tools", ()),
        "tools": ({"tools": [MESSAGES_TOOL], "tool_choice": {"type": "auto"}}, "tools", READ),
    },
    "responses": {
        "include": ({"include": ["reasoning.encrypted_content"]}, sealed, "agent-r1:aG0="),
        "input": ({"input": [HELLO | {"content": "Ho"}]}, "messages", (ChatMessage("user", "Ho"),)),
        "instructions": ({"instructions": "Be brief."}, lambda it: it.messages[0], ChatMessage("system", "Be brief.")),
        "max_output_tokens": ({"max_output_tokens": 10}, "max_tokens", 10),
        "model": ({"model": "small"}, lambda it: responses.write(REPLY, it)["model"], "small"),
        "prompt_cache_options": (
            {"prompt_cache_options": {"mode": "implicit", "prewarm": False}},
            "ignored",
            ("prompt_cache_options.mode",),
        ),
        "previous_response_id": (
            {"previous_response_id": "resp_0"},
            lambda it: responses.write(REPLY, it).get("previous_response_id"),
            "resp_0",
        ),
        "store": ({"store": False}, recalled, False),
        "stream": ({"stream": True}, "stream", True),
        "text": ({"text": {"format": {"type": "text"}, "verbosity": "low"}}, "ignored", ("text.verbosity",)),
        "tool_choice": ({"tools": [RESPONSES_TOOL], "tool_choice": "none"}, "tools", ()),
        "tools": ({"tools": [RESPONSES_TOOL], "tool_choice": "auto"}, "tools", READ),
    },
}
"""By field: what is sent, what is looked at, in the request as it is read or in a reply to it, and what is there."""


def rows(effect: Effect, examples: Mapping[str, Mapping[str, Any]] = EXAMPLES) -> list[Any]:
    """The parameters of a test: dialect, field, example."""
    return [
        pytest.param(dialect, row.name, examples[dialect.NAME].get(row.name, ()), id=f"{dialect.NAME}-{row.name}")
        for dialect in DIALECTS
        for row in dialect.FIELDS.values()
        if row.effect is effect
    ]


def asked(dialect: Dialect, **fields: Any) -> ChatRequest:
    return dialect.read(LEAST[dialect.NAME] | fields)


@pytest.mark.parametrize("dialect", DIALECTS, ids=TITLES)
def test_every_row_has_an_example_and_what_no_row_names_is_refused(dialect: Dialect) -> None:
    assert {*EXAMPLES[dialect.NAME], *HONOURED[dialect.NAME]} == set(dialect.FIELDS)
    assert refused_field(dialect, LEAST[dialect.NAME] | {"frobnicate": 1}) == "frobnicate"


@pytest.mark.parametrize(("dialect", "name", "values"), rows(Effect.WITHOUT_EFFECT))
def test_a_field_without_effect_is_named_and_changes_nothing_else(
    dialect: Dialect, name: str, values: list[Any]
) -> None:
    (value,) = values
    request = asked(dialect, **{name: value})

    assert request.ignored == (name,)
    assert replace(request, ignored=()) == asked(dialect) == asked(dialect, **{name: None})
    for other in (1, "x", [1], {"a": {}}):
        assert asked(dialect, **{name: other}) == request


@pytest.mark.parametrize(("dialect", "name", "values"), rows(Effect.REFUSED))
def test_a_refused_field_is_named_in_the_format_of_the_api(dialect: Dialect, name: str, values: list[Any]) -> None:
    assert values
    for value in values:
        assert refused_field(dialect, LEAST[dialect.NAME] | {name: value}) == name
    for value in dialect.FIELDS[name].harmless:
        assert asked(dialect, **{name: value}) == asked(dialect)


@pytest.mark.parametrize(("dialect", "name", "example"), rows(Effect.HONOURED, HONOURED))
def test_an_honoured_field_has_its_effect_or_is_refused(
    dialect: Dialect, name: str, example: tuple[dict[str, Any], Any, Any]
) -> None:
    sent, where, there = example
    look: Shown = where if callable(where) else lambda request: getattr(request, where)
    without = {other: value for other, value in sent.items() if other != name}

    assert look(asked(dialect, **sent)) == there
    assert look(asked(dialect, **without)) != there
    for value in EXAMPLES[dialect.NAME].get(name, ()):
        assert refused_field(dialect, LEAST[dialect.NAME] | {name: value}).startswith(name)
    for value in WRONG.get(name, ()):
        assert refused_field(dialect, LEAST[dialect.NAME] | {name: value}) == name


CHAT = "openai.types.chat.completion_create_params:CompletionCreateParams"
RESPONSES = "openai.types.responses.response_create_params:ResponseCreateParams"
MESSAGES = "anthropic.types.message_create_params:MessageCreateParams"
BETA = "anthropic.types.beta.message_create_params:MessageCreateParams"


@pytest.mark.parametrize(
    ("dialect", "where"), [(chat, CHAT), (messages, MESSAGES), (messages, BETA), (responses, RESPONSES)]
)
def test_the_sdks_have_no_other_fields_and_take_the_examples(dialect: Dialect, where: str) -> None:
    pydantic = pytest.importorskip("pydantic")
    module, _, kind = where.partition(":")
    found = pytest.importorskip(module)
    types = {
        name: of
        for form in ("NonStreaming", "Streaming")
        for name, of in get_type_hints(getattr(found, kind + form)).items()
    }
    honoured = {name: [sent[name]] for name, (sent, _, _) in HONOURED[dialect.NAME].items()}

    assert set(types) <= set(dialect.FIELDS)
    for name in types:
        for value in [*EXAMPLES[dialect.NAME].get(name, ()), *honoured.get(name, ())]:
            pydantic.TypeAdapter(types[name]).validate_python(value)


def table(dialect: Dialect) -> str:
    """A dialect's fields as a Markdown table; those without effect in one row."""
    lines = [f"## {TITLES[dialect.NAME]}", "", f"`POST {dialect.PATHS[0]}`", "", "| field | | |", "|---|---|---|"]
    for effect in (Effect.HONOURED, Effect.REFUSED):
        for row in sorted(dialect.FIELDS.values(), key=lambda row: row.name):
            if row.effect is effect:
                passing = " and ".join(f"`{json.dumps(value)}`" for value in row.harmless)
                lines.append(f"| `{row.name}` | {effect}{passing and f', but for {passing}'} | {row.note} |")
    idle = sorted(row.name for row in dialect.FIELDS.values() if row.effect is Effect.WITHOUT_EFFECT)
    lines.append(f"| {', '.join(f'`{name}`' for name in idle)} | {Effect.WITHOUT_EFFECT} | |")
    return "\n".join([*lines, ""])


def test_the_page_shows_the_tables(root: Path) -> None:
    """WRITE_DOCS=1 writes the page anew."""
    page = root / "docs" / "apis.md"
    text = page.read_text(encoding="utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    wanted = before + BEGIN + "\n" + "\n".join(map(table, DIALECTS)) + "\n" + END + after
    if os.environ.get("WRITE_DOCS"):
        page.write_text(wanted, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == wanted
