"""Whatever a body, or a call in it, has in place of what belongs there: it is read, or refused in one sentence."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from agent_r1_gateway.dialects import chat, messages, responses
from agent_r1_gateway.dialects.fields import Dialect
from agent_r1_gateway.wire import DEEPEST, MOST_LITERAL, Call, ChatMessage, Refused, Reply, read_arguments, too_deep

from .conftest import nested, recorded

CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}}
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
CHAT = {
    "model": "policy",
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "content": "Hello", "name": "Ann"},
        {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "hm", "function_call": None},
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
    ],
    "tools": [{"type": "function", "function": {"name": "search", "description": "Search.", "parameters": SCHEMA}}],
    "stop": ["END"],
    "stream_options": {"include_usage": True},
    **{name: None for name in chat.FIELDS if name not in ("model", "messages", "tools", "stop", "stream_options")},
}
MESSAGES = {
    "model": "policy",
    "max_tokens": 50,
    "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": "Hello"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": "x"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "is_error": True,
                    "content": [{"type": "text", "text": "r"}],
                },
                {"type": "text", "text": "Go on."},
            ],
        },
    ],
    "tools": [{"name": "search", "description": "Search.", "input_schema": SCHEMA, "type": "custom"}],
    "tool_choice": {"type": "auto"},
    "stop_sequences": ["END"],
}
MESSAGES |= {name: None for name in messages.FIELDS if name not in MESSAGES}


CASES = [
    pytest.param(chat, CHAT, id="chat"),
    pytest.param(messages, MESSAGES, id="messages"),
    pytest.param(responses, recorded("codex_request"), id="codex", marks=pytest.mark.slow),
    pytest.param(responses, recorded("codex_team_request"), id="codex in a team", marks=pytest.mark.slow),
]
REPLY = Reply("r", 1, "Done.", "So.", (Call("search", {}, "c1"), Call("multi_agent_v1__close_agent", {}, "c2")))
MISSING = object()


JUNK: tuple[Any, ...] = (
    *(MISSING, None, True, 0, -1, 1.5, float("nan"), 10**400, "", "x", "\ud800"),
    *([], {}, [[]], [{}], [None], [5], ["x"], {"type": "text"}, {"type": ["text"]}, {"type": "x"}),
    *([{"type": "text", "text": "\udc00"}], nested(40), nested(1000)),
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of everything in a body."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*path, key)
        yield from paths(one, (*path, key))


def broken(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A body with one thing replaced, for every thing and every replacement."""
    for *before, last in paths(copy.deepcopy(body)):
        changed = copy.deepcopy(body)
        place: Any = changed
        for key in before:
            place = place[key]
        kept = place[last]
        for junk in JUNK[1:]:
            place[last] = junk
            yield changed
        place[last] = kept
        del place[last]
        yield changed


@pytest.mark.parametrize(("dialect", "body"), CASES)
def test_a_broken_body_is_read_or_refused_in_one_sentence(dialect: Dialect, body: dict[str, Any]):
    read, refusals = 0, list[bool]()
    for changed in broken(body):
        try:
            request = dialect.read(changed)
        except Refused as refused:
            said = str(refused)
            refusals.append(bool(refused.field) and str(refused.field) in said and "\n" not in said and len(said) < 200)
            continue
        read += 1
        for message in request.messages:
            message.key().encode()
            message.text.encode()
        json.dumps(dialect.events(REPLY, request))
    assert min(read, len(refusals)) > 300
    assert all(refusals)


@pytest.mark.parametrize(("dialect", "body"), CASES)
def test_a_body_stays_as_it_is(dialect: Dialect, body: dict[str, Any]):
    before = copy.deepcopy(body)
    request = dialect.read(body)
    assert body == before == request.body


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (None, {}),
        ("  ", {}),
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ('{"a": "\\ud83d"}', {"a": "\ufffd"}),
        (" {'a': (1, None), 2: True}", {"a": [1, None], "2": True}),
        *((text, text) for text in ("x", "3", "null", "[1]", '{"a": 1', "{'a': {1}}", "{'a': b'x'}", "{'a': open}")),
        *((text, text) for text in ("{" * 5000, "{'a': '" + "x" * MOST_LITERAL + "'}", '{"a": ' + "9" * 5000 + "}")),
        *((text, text) for text in ('{"a":' * levels + "1" + "}" * levels for levels in (150, 700, 100_000))),
    ],
)
def test_arguments_are_an_object_or_the_text_itself(written: Any, read: Any) -> None:
    got = read_arguments(written)

    assert got == read
    assert ChatMessage("assistant", calls=(Call("f", got),)).key()


def test_a_value_may_nest_up_to_the_limit() -> None:
    assert not too_deep(nested(DEEPEST // 2))
    assert too_deep([nested(DEEPEST // 2)])
    assert too_deep(nested(5000))
