"""Whatever a body, or a call in it, has in place of what belongs there: it is read, or that place is refused."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from agent_r1_gateway.dialects import chat, messages, responses
from agent_r1_gateway.dialects.fields import Dialect
from agent_r1_gateway.wire import DEEPEST, MOST_LITERAL, Call, ChatMessage, Refused, Reply, read_arguments, too_deep

from .conftest import nested, recorded
from .test_responses import ASKED, CALL, FUNCTION, OUTPUT, PATCH, PATCH_TOOL, SAID, SPACE, THOUGHT, asked, parts


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
    system=[{"type": "text", "text": "Be brief."}],
)
ITEMS = (ASKED, THOUGHT, SAID, CALL, OUTPUT, PATCH, {**OUTPUT, "type": "custom_tool_call_output", "output": parts("x")})
OURS = {"tools": [FUNCTION, PATCH_TOOL, {**SPACE, "tools": [FUNCTION]}], "prompt_cache_options": {"prewarm": False}}
RESPONSES = dict.fromkeys(responses.FIELDS) | asked({**ASKED, "content": parts("x")}, *ITEMS, **OURS)
RESPONSES = json.loads(json.dumps(RESPONSES))  # no two parts of it are one object
CASES = [
    pytest.param(chat, CHAT, 1300, id="chat"),
    pytest.param(messages, MESSAGES, 1514, id="messages"),
    pytest.param(responses, RESPONSES, 1679, id="responses"),
    pytest.param(responses, recorded("codex_request"), 2387, id="codex", marks=pytest.mark.slow),
    pytest.param(responses, recorded("codex_team_request"), 2714, id="codex in a team", marks=pytest.mark.slow),
]
"""An API, a body, and how many of its broken ones are refused, so that a refusal that comes or goes is seen."""
REPLY = Reply("r", 1, "Done.", "So.", (Call("search", {}, "c1"), Call("multi_agent_v1__close_agent", {}, "c2")))
MISSING = object()


JUNK: tuple[Any, ...] = (
    *(MISSING, None, True, 0, -1, 1.5, float("nan"), 10**400, "", "x", "\ud800"),
    *([], {}, [[]], [{}], [None], [5], ["x"], {"type": "text"}, {"type": ["text"]}, {"type": "x"}),
    *([{"type": "text", "text": "\udc00"}], nested(40), DEEP := nested(1000)),
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of everything in a body."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*path, key)
        yield from paths(one, (*path, key))


def broken(body: dict[str, Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """A body with one thing replaced, for every thing and every replacement; and where, and by what."""
    for *before, last in paths(copy.deepcopy(body)):
        changed = copy.deepcopy(body)
        place: Any = changed
        for key in before:
            place = place[key]
        where = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in (*before, last))[1:]
        kept = place[last]
        for junk in JUNK[1:]:
            place[last] = junk
            yield where, junk, changed
        place[last] = kept
        del place[last]
        yield where.removesuffix(f"[{last}]"), MISSING, changed


@pytest.mark.parametrize(("dialect", "body", "refusals"), CASES)
def test_a_broken_body_is_read_or_refused_by_its_place_and_a_whole_one_stays_as_it_is(
    dialect: Dialect, body: dict[str, Any], refusals: int
) -> None:
    refused = 0
    for where, junk, changed in broken(body):
        try:
            request = dialect.read(changed)
        except Refused as error:
            refused, field, said = refused + 1, str(error.field), str(error)
            part = re.match(r"\w+(\[\d+\])?", where)
            assert field.startswith(part[0] if part and junk is DEEP else where.removesuffix(".type")), where
            assert field in said
            assert "\n" not in said
            assert len(said) < 200
            continue
        for message in request.messages:
            message.key().encode()
            message.text.encode()
        json.dumps(dialect.events(REPLY, request))
    assert refused == refusals
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
