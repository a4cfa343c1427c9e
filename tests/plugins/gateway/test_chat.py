"""Chat Completions: what requests mean, which are refused, and which messages compare equal."""

from __future__ import annotations

from typing import Any

import pytest
from agent_r1_gateway.dialects import chat
from agent_r1_gateway.wire import Call, ChatMessage, Reply, TokenLogprob

from .conftest import refused_field, user

HELLO = {"role": "user", "content": "Hello"}
SEARCH = {
    "type": "function",
    "function": {"name": "search", "description": "Search.", "parameters": {"type": "object"}, "strict": True},
}


def body(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "policy", "messages": [*messages] or [HELLO], **fields}


def called(arguments: Any, identity: str = "c1", **fields: Any) -> dict[str, Any]:
    """An assistant's message with a call."""
    call = {"id": identity, "type": "function", "function": {"name": "search", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call], **fields}


def told(text: Any, identity: str = "c1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identity, "content": text}


def blocks(*texts: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text, **fields} for text in texts]


def asks(arguments: Any, thinking: str = "") -> ChatMessage:
    return ChatMessage("assistant", "", (Call("search", arguments),), thinking)


def found(text: str) -> ChatMessage:
    return ChatMessage("tool", text, name="search")


ASKED = ChatMessage("user", "Hello")
MESSAGES = {
    "text": ([HELLO], [ASKED]),
    "null": ([user(None)], [ChatMessage("user")]),
    "blocks": ([user(blocks("a", "b"))], [ChatMessage("user", "ab")]),
    "system and developer": (
        [{"role": "system", "content": "s"}, {"role": "developer", "content": blocks("d")}, HELLO],
        [ChatMessage("system", "s"), ChatMessage("system", "d"), ASKED],
    ),
    "a call and its result": (
        [HELLO, called('{"q": "x"}', reasoning_content="hm"), told("found")],
        [ASKED, asks({"q": "x"}, "hm"), found("found")],
    ),
    "a result without its call": (
        [{"role": "assistant", "content": "a", "reasoning": "r", "refusal": "no"}, told(blocks("t"), "elsewhere")],
        [ChatMessage("assistant", "a", (), "r"), ChatMessage("tool", "t")],
    ),
    "refusals are left out": (
        [{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}, *blocks("a")]}, HELLO],
        [ChatMessage("assistant", "a"), ASKED],
    ),
    "several calls": (
        [called("{}"), told("1"), HELLO, called("no JSON", "c2"), told("2", "c2"), told("3", "c1")],
        [asks({}), found("1"), ASKED, asks("no JSON"), found("2"), found("3")],
    ),
    "what looks like a call is text": (
        [user('<tool_call>{"name": "search", "arguments": {}}</tool_call>')],
        [ChatMessage("user", '<tool_call>{"name": "search", "arguments": {}}</tool_call>')],
    ),
    "half a character": ([user("cut \ud83d off")], [ChatMessage("user", "cut \ufffd off")]),
}


@pytest.mark.parametrize(("given", "read"), MESSAGES.values(), ids=MESSAGES)
def test_messages_are_read(given, read):
    assert list(chat.read(body(*given)).messages) == read


def test_tools_need_no_more_than_a_name_and_what_has_no_effect_is_listed_up_to_a_bound():
    (tool,) = chat.read(body(tools=[{"type": "function", "function": {"name": "now"}}])).tools
    empty = {"type": "object", "properties": {}}
    assert tool["function"] == {"name": "now", "description": "", "parameters": empty}
    assert chat.read(body({**HELLO, "name": "Ann", "audio": None})).ignored == ("messages[].name",)
    many = {f"field_{number}": 1 for number in range(1000)}
    assert len(chat.read(body({**HELLO, **many})).ignored) == 20


def test_the_policy_continues_no_message_that_it_has_begun():
    assert refused_field(chat, body(HELLO, {"role": "assistant", "content": "I"})) == "messages[1]"


def key(message: dict[str, Any]) -> str:
    """Of a message in a conversation."""
    return chat.read(body(HELLO, message, HELLO)).messages[1].key()


SAME = {
    "one block": (user("x"), user(blocks("x"))),
    "two blocks": (user("xy"), user(blocks("x", "y"))),
    "cache_control": (user(blocks("x")), user(blocks("x", cache_control={"type": "ephemeral"}))),
    "null and empty": (called("{}"), called("{}", content="")),
    "null and no blocks": (called("{}"), called("{}", content=[])),
    "null and missing": (called("{}"), {key: one for key, one in called("{}").items() if key != "content"}),
    "ids": (called("{}"), called("{}", identity="c9")),
    "no arguments": (called("{}"), called("")),
    "order of keys": (called('{"a": 1, "b": {"c": 2, "d": 3}}'), called('{"b":{"d":3,"c":2},"a":1}')),
    "a whole number as a float": (called('{"a": [1.0]}'), called('{"a": [1]}')),
    "a Python literal": (called('{"a": true, "b": null}'), called("{'a': True, 'b': None}")),
    "a tuple": (called('{"a": [1, 2]}'), called("{'a': (1, 2)}")),
    "an object in place of JSON": (called('{"a": "é"}'), called({"a": "\u00e9"})),
    "what the SDK adds": (called('{"a": 1}', refusal=None, annotations=[]), called('{"a": 1}')),
    "names of reasoning": (called("{}", reasoning="hm"), called("{}", reasoning_content="hm")),
}
OTHER = {
    "another value": (called('{"a": 1}'), called('{"a": 2}')),
    "true is no 1": (called('{"a": 1}'), called('{"a": true}')),
    "a text is no number": (called('{"a": 1}'), called('{"a": "1"}')),
    "a fraction": (called('{"a": 1}'), called('{"a": 1.5}')),
    "null is given": (called('{"a": null}'), called("{}")),
    "order of a list": (called('{"a": [1, 2]}'), called('{"a": [2, 1]}')),
    "a space": (called('{"a": "x"}'), called('{"a": "x "}')),
    "thinking": (called("{}"), called("{}", reasoning="hm")),
    "role": (user("x"), {"role": "system", "content": "x"}),
    "text is text": (user("True"), user("true")),
}


@pytest.mark.parametrize("name", [*SAME, *OTHER])
def test_messages_compare_equal_where_they_read_alike(name):
    one, other = (SAME | OTHER)[name]
    assert (key(one) == key(other)) is (name in SAME)


def test_log_probs_and_usage_come_where_they_are_asked_for():
    tokens = (TokenLogprob("Hel", -0.25), TokenLogprob("\ufffd", -0.5), TokenLogprob("lo", float("-inf")))
    said = Reply("r1", 1, "Hello", prompt_tokens=30, completion_tokens=7, logprobs=tokens)
    assert chat.write(said, chat.read(body()))["choices"][0]["logprobs"] is None
    shown = chat.write(said, chat.read(body(logprobs=True)))["choices"][0]["logprobs"]["content"]
    assert [(token["token"], token["logprob"]) for token in shown] == [
        ("Hel", -0.25),
        ("\ufffd", -0.5),
        ("lo", -9999.0),
    ]
    assert [token["bytes"] for token in shown] == [[72, 101, 108], None, [108, 111]]
    *_, last, done = chat.events(said, chat.read(body(stream=True)))
    assert (done, "usage" in last[1]) == ((None, "[DONE]"), False)
    *chunks, last, _ = chat.events(said, chat.read(body(stream=True, stream_options={"include_usage": True})))
    assert all(chunk["usage"] is None for _, chunk in chunks)
    assert (last[1]["choices"], last[1]["usage"]["total_tokens"]) == ([], 37)
