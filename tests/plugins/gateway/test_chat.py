"""Chat Completions: what requests mean, which are refused, and which messages compare equal."""

from __future__ import annotations

from typing import Any

import pytest
from agent_r1_gateway.dialects import chat
from agent_r1_gateway.wire import Call, ChatMessage, Reply, TokenLogprob

from .conftest import nested, user

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


IMAGE = {"type": "image_url", "image_url": {"url": "data:"}}
REFUSED = [
    ({}, "messages"),
    ({"messages": None}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": "Hello"}, "messages"),
    ({"messages": {"role": "user"}}, "messages"),
    ({"messages": ["Hello"]}, "messages[0]"),
    (body({"content": "Hello"}), "messages[0].role"),
    (body({"role": 1, "content": "Hello"}), "messages[0].role"),
    (body({"role": "user"}), "messages[0].content"),
    (body(user(5)), "messages[0].content"),
    (body(user({"type": "text"})), "messages[0].content"),
    (body(user(["x"])), "messages[0].content[0]"),
    (body(user([{"text": "x"}])), "messages[0].content[0].type"),
    (body(user([{"type": "text"}])), "messages[0].content[0].text"),
    (body(user([*blocks("x"), IMAGE])), "messages[0].content[1]"),
    (body({"role": "tool", "content": "x"}), "messages[0].tool_call_id"),
    (body(HELLO, {"role": "assistant", "content": "I"}), "messages[1]"),
    (body({"role": "assistant", "function_call": {"name": "f"}}, HELLO), "messages[0].function_call"),
    (body({"role": "assistant", "tool_calls": {}}, HELLO), "messages[0].tool_calls"),
    (body({"role": "assistant", "tool_calls": [{"type": "custom"}]}, HELLO), "messages[0].tool_calls[0]"),
    (body({"role": "assistant", "tool_calls": [{"id": "c"}]}, HELLO), "messages[0].tool_calls[0].function.name"),
    (body(called("{}", identity=5), HELLO), "messages[0].tool_calls[0].id"),  # type: ignore[arg-type]
    (body(called(5), HELLO), "messages[0].tool_calls[0].function.arguments"),
    (body(called("{}", reasoning_content=[]), HELLO), "messages[0].reasoning_content"),
    (body(user([nested(1000)])), "messages[0]"),
    (body(metadata=nested(1000)), "metadata"),
    (body(model=None), "model"),
    (body(model=""), "model"),
    (body(model=["policy"]), "model"),
    (body(stop=5), "stop"),
    (body(stop=""), "stop"),
    (body(stop=["a", ""]), "stop[1]"),
    (body(max_tokens=0), "max_tokens"),
    (body(max_tokens=2.5), "max_tokens"),
    (body(max_completion_tokens=True), "max_completion_tokens"),
    (body(stream="yes"), "stream"),
    (body(stream_options=[]), "stream_options"),
    (body(logprobs=5), "logprobs"),
    (body(tools="search"), "tools"),
    (body(tools=["search"]), "tools[0]"),
    (body(tools=[{"type": "custom", "custom": {"name": "c"}}]), "tools[0]"),
    (body(tools=[{"type": "function"}]), "tools[0].function.name"),
    (body(tools=[SEARCH, {"type": "function", "function": {}}]), "tools[1].function.name"),
    (body(tools=[{"type": "function", "function": {"name": "f", "description": 5}}]), "tools[0].function.description"),
    (body(tools=[{"type": "function", "function": {"name": "f", "parameters": []}}]), "tools[0].function.parameters"),
]


@pytest.mark.parametrize(("given", "field"), REFUSED)
def test_what_cannot_be_done_is_refused_by_its_field(refused_field, given, field):
    assert refused_field(chat, given) == field


def key(message: dict[str, Any]) -> str:
    """Of a message in a conversation."""
    return chat.read(body(HELLO, message, HELLO)).messages[1].key()


SAME = {
    "one block": (user("x"), user(blocks("x"))),
    "two blocks": (user("xy"), user(blocks("x", "y"))),
    "cache_control": (user(blocks("x")), user(blocks("x", cache_control={"type": "ephemeral"}))),
    "null and empty": (called("{}"), called("{}", content="")),
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
