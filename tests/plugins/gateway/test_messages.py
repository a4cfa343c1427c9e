"""Messages: what requests mean, which are refused, and which messages compare equal."""

from __future__ import annotations

from typing import Any

import pytest
from agent_r1_gateway.dialects import messages
from agent_r1_gateway.wire import Call, ChatMessage, Refused

from .conftest import refused_field

HELLO = {"role": "user", "content": "Hello"}
ASKED = ChatMessage("user", "Hello")
MARK = {"cache_control": {"type": "ephemeral"}}
SEARCH = {"name": "search", "description": "Search.", "input_schema": {"type": "object"}, **MARK}


def body(*given: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "policy", "max_tokens": 50, "messages": [*given] or [HELLO], **fields}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": [*blocks]}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [*blocks]}


def text(said: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **fields}


def thought(said: Any, signature: str = messages.SIGNATURE) -> dict[str, Any]:
    return {"type": "thinking", "thinking": said, "signature": signature}


def use(given: Any, identity: Any = "t1", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": "search", "input": given, **fields}


def result(content: Any = None, identity: Any = "t1", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": identity, "content": content, **fields}


def told(text: str) -> ChatMessage:
    return ChatMessage("tool", text, name="search")


CALL = (Call("search", {"q": "x"}),)
CALLS = assistant(use({"q": "x"}))
MESSAGES = {
    "text": ([HELLO], [ASKED]),
    "blocks": ([user(text("a", **MARK), text("b"))], [ChatMessage("user", "ab")]),
    "a system message behind the first": (
        [HELLO, {"role": "system", "content": [text("s", **MARK)]}],
        [ASKED, ChatMessage("system", "s")],
    ),
    "thinking": (
        [assistant(thought("h"), {"type": "redacted_thinking", "data": "x"}, thought("m"), text("a")), HELLO],
        [ChatMessage("assistant", "a", (), "hm"), ASKED],
    ),
    "results, then text": (
        [CALLS, user(result("found"), text("Go"), text(" on"))],
        [ChatMessage("assistant", "", CALL), told("found"), ChatMessage("user", "Go on")],
    ),
    "text, then results": (
        [CALLS, user(text("See:"), result([text("a", **MARK), text("b")], **MARK), result("c", "t0"))],
        [ChatMessage("assistant", "", CALL), ChatMessage("user", "See:"), told("ab"), ChatMessage("tool", "c")],
    ),
    "errors": (
        [CALLS, user(result(is_error=True)), user(result("bad", is_error=True), result())],
        [ChatMessage("assistant", "", CALL), told("error"), told("bad"), told("")],
    ),
    "adjacent messages of the assistant are one": (
        [HELLO, assistant(thought("hm")), assistant(text("a")), CALLS, user(result("r"))],
        [ASKED, ChatMessage("assistant", "a", CALL, "hm"), told("r")],
    ),
}


@pytest.mark.parametrize(("given", "read"), MESSAGES.values(), ids=MESSAGES)
def test_messages_are_read(given, read):
    assert list(messages.read(body(*given)).messages) == read


def test_the_system_prompt_comes_first_and_names_no_client():
    read = [
        messages.read(body(system=given)).messages[0] for given in ("Be brief.", [text("Be "), text("brief.", **MARK)])
    ]
    assert read == [ChatMessage("system", "Be brief.")] * 2
    for given in (None, "", []):
        assert messages.read(body(system=given)).messages == (ASKED,)
    billing = "x-anthropic-billing-header: cc_version=2.1; cch={};"
    first, second = (messages.read(body(system=[text(billing.format(at)), text("Be brief.")])) for at in (1, 2))
    with pytest.raises(Refused, match=r"system\[1\]"):
        messages.read(body(system=[text(billing), {"type": "image"}]))
    assert first.messages == second.messages == (ChatMessage("system", "Be brief."), ASKED)


def test_what_has_no_effect_within_messages_and_tools_is_listed():
    web = {"type": "web_search_20260318", "name": "web_search"}
    request = messages.read(body({**HELLO, "id": "m1"}, tools=[web, SEARCH]))
    assert request.ignored == ("messages[].id", "tools[web_search_20260318]")
    assert [tool["function"]["name"] for tool in request.tools] == ["search"]


def test_tokens_are_counted_of_what_is_not_yet_a_question():
    given = {"model": "policy", "messages": [HELLO, assistant(text("Well"))], "tools": [SEARCH], "system": "s"}
    request = messages.count(given)
    assert [message.role for message in request.messages] == ["system", "user", "assistant"]
    assert (request.max_tokens, len(request.tools)) == (None, 1)
    with pytest.raises(Refused, match="messages is missing"):
        messages.count({"model": "policy"})


REFUSED = [
    (body(HELLO, assistant(text("Well"))), "messages[1]"),
    (body({"role": "system", "content": [{"type": "image", "source": {}}]}), "messages[0].content[0]"),
    (body(user({"type": "x" * 1000})), "messages[0].content[0]"),
    (body(assistant({"type": "server_tool_use"}), HELLO), "messages[0].content[0]"),
    (body(user(result(is_error="yes"))), "messages[0].content[0].is_error"),
    (body(stop_sequences=["a", 1]), "stop_sequences[1]"),
]


@pytest.mark.parametrize(("given", "field"), REFUSED)
def test_what_cannot_be_done_is_refused_by_its_field(given, field):
    assert refused_field(messages, given) == field


def key(message: dict[str, Any]) -> str:
    """Of a message in a conversation."""
    return messages.read(body(HELLO, message, HELLO)).messages[1].key()


SAME = {
    "one block": ({"role": "user", "content": "x"}, user(text("x"))),
    "a mark moved": (user(text("x", **MARK), text("y")), user(text("x"), text("y", **MARK))),
    "two blocks": (user(text("xy")), user(text("x"), text("y"))),
    "a result": (user(result("x", **MARK)), user(result([text("x")]))),
    "null and empty": (user(result("")), user(result(None))),
    "no error": (user(result("x")), user(result("x", is_error=False))),
    "ids": (assistant(text("x"), use({})), assistant(text("x"), use({}, "t9", **MARK))),
    "a Python literal": (assistant(use({"a": True})), assistant(use("{'a': True}"))),
    "signatures": (assistant(thought("h"), text("x")), assistant(thought("h", "other"), text("x"))),
    "redacted": (assistant(text("x")), assistant({"type": "redacted_thinking", "data": "d"}, text("x"))),
}
OTHER = {
    "another value": (assistant(use({"a": 1})), assistant(use({"a": 2}))),
    "one call more": (assistant(use({}), use({})), assistant(use({}))),
    "thinking": (assistant(text("x")), assistant(thought("h"), text("x"))),
    "a result is no text": (user(result("x")), user(text("x"))),
}


@pytest.mark.parametrize("name", [*SAME, *OTHER])
def test_messages_compare_equal_where_they_read_alike(name):
    one, other = (SAME | OTHER)[name]
    assert (key(one) == key(other)) is (name in SAME)
