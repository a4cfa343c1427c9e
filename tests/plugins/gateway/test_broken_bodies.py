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


def whole(dialect: Dialect, name: str, *further: Any, **fields: Any) -> dict[str, Any]:
    """What a client sent, with further messages and fields, and every field that the API has."""
    _, body = recorded("client_requests")[name]
    return dict.fromkeys(dialect.FIELDS) | body | fields | {"messages": [*body["messages"], *further]}


RESULT = {"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "r"}]}
CHAT = whole(
    chat,
    "pi",
    {"role": "assistant", "content": None, "function_call": None},
    {"role": "user", "content": [{"type": "text", "text": "On.", "cache_control": {"type": "ephemeral"}}], "name": "A"},
    stop=["END"],
)
MESSAGES = whole(
    messages,
    "claude code",
    {"role": "user", "content": [RESULT, {"type": "text", "text": "Go on."}]},
    tool_choice={"type": "auto"},
    stop_sequences=["END"],
)
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
def test_a_broken_body_is_read_or_refused_in_one_sentence_and_a_whole_one_stays_as_it_is(
    dialect: Dialect, body: dict[str, Any]
):
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
