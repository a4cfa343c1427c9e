"""Messages: the `anthropic` SDK takes replies, streams and errors as its own, and gives back what was said."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from agent_r1_gateway.dialects import messages
from agent_r1_gateway.wire import Call, ChatMessage, Reply

HELLO = {"role": "user", "content": "Hello"}
QUESTION = {"model": "policy", "max_tokens": 50, "messages": [HELLO]}


def reply(**fields: Any) -> Reply:
    return Reply("r1", 1700000000, prompt_tokens=30, completion_tokens=7, **fields)


CALLS = (Call("search", {"q": "Käse \N{CHEESE WEDGE}", "n": 1.0, "deep": [None, True]}, "t1"), Call("now", {}, "t2"))
REPLIES = {
    "text": reply(text="Hello <tool_call>"),
    "nothing": reply(),
    "thinking": reply(text="Hello", thinking="hm"),
    "thinking alone": reply(thinking="hm"),
    "calls": reply(calls=CALLS),
    "all": reply(text="a\n\u2028b\r", thinking="h\n\nm", calls=CALLS),
    "cut": reply(text="Hel", cut=True),
    "stopped": reply(text="Hel", stopped_by="lo"),
    "long": reply(
        text="x\N{CHEESE WEDGE}" * 5000, thinking="y" * 9000, calls=(Call("search", {"q": "z" * 9000}, "t"),)
    ),
}


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_that_comes_back_compares_equal_to_what_was_said(name):
    said = REPLIES[name]
    written = json.loads(json.dumps(messages.write(said, messages.read(QUESTION)), allow_nan=False))
    returned = {"role": "assistant", "content": written["content"]}
    request = messages.read(QUESTION | {"messages": [HELLO, returned, HELLO]})
    assert request.messages[1].key() == ChatMessage("assistant", said.text, said.calls, said.thinking).key()


def test_why_a_reply_ended():
    written = {name: messages.write(said, messages.read(QUESTION)) for name, said in REPLIES.items()}
    reasons = [written[name]["stop_reason"] for name in ("text", "calls", "cut", "stopped")]
    assert reasons == ["end_turn", "tool_use", "max_tokens", "stop_sequence"]
    assert [written[name]["stop_sequence"] for name in ("text", "stopped")] == [None, "lo"]
    both = messages.write(reply(calls=CALLS, stopped_by="lo"), messages.read(QUESTION))
    assert (both["stop_reason"], both["stop_sequence"]) == ("tool_use", None)


def test_there_is_text_or_a_call():
    content = {name: messages.write(said, messages.read(QUESTION))["content"] for name, said in REPLIES.items()}
    assert [block["type"] for block in content["nothing"]] == ["text"]
    assert [block["type"] for block in content["thinking alone"]] == ["thinking", "text"]
    assert [block["type"] for block in content["calls"]] == ["tool_use", "tool_use"]


def test_arguments_that_json_does_not_have_are_still_an_object_of_json():
    calls = (Call("search", {"n": [float("nan"), float("inf")]}, "t1"), Call("search", "[1", "t2"))
    content = messages.write(reply(calls=calls), messages.read(QUESTION))["content"]
    assert [block["input"] for block in content] == [{"n": [None, None]}, {"input": "[1"}]


def test_a_stream_has_the_api_s_events():
    data = messages.events(REPLIES["all"], messages.read(QUESTION))
    assert all(isinstance(one, dict) and name == one["type"] for name, one in data)
    shown = [one.get("delta", {}).get("type", name) for name, one in data]  # type: ignore[union-attr]
    start, stop = "content_block_start", "content_block_stop"
    call = [start, "input_json_delta", stop]
    assert shown == [
        "message_start",
        *(start, "thinking_delta", "signature_delta", stop),
        *(start, "text_delta", stop),
        *(*call, *call),
        "message_delta",
        "message_stop",
    ]


@pytest.fixture
def asking(through_sdk: Callable[..., Any]) -> Callable[[Reply, Callable[[Any], Any]], Any]:
    return partial(through_sdk, pytest.importorskip("anthropic").AsyncAnthropic, "http://gateway", messages)


@pytest.mark.parametrize("name", REPLIES)
def test_the_sdk_s_types_take_replies_strictly(name):
    types, pydantic = pytest.importorskip("anthropic.types"), pytest.importorskip("pydantic")
    written = messages.write(REPLIES[name], messages.read(QUESTION))
    for kind in (types.Message, types.beta.BetaMessage):
        read = kind.model_validate_json(json.dumps(written), strict=True)
        assert read.model_extra == {}
        assert all(block.model_extra == {} for block in read.content)
    for kind in (types.RawMessageStreamEvent, types.beta.BetaRawMessageStreamEvent):
        events = pydantic.TypeAdapter(kind)
        for _, data in messages.events(REPLIES[name], messages.read(QUESTION)):
            read = events.validate_json(json.dumps(data), strict=True)
            assert read.model_extra == {}


@pytest.mark.parametrize("beta", [False, True], ids=["", "beta"])
@pytest.mark.parametrize("name", REPLIES)
def test_the_sdk_reads_the_same_from_a_stream(asking, name, beta):
    async def ask(client: Any) -> tuple[Any, Any]:
        api = client.beta.messages if beta else client.messages
        whole = await api.create(**QUESTION)
        async with api.stream(**QUESTION) as stream:
            return whole, await stream.get_final_message()

    whole, streamed = asking(REPLIES[name], ask)
    assert streamed.model_dump(exclude_none=True) == whole.model_dump(exclude_none=True)


def test_the_sdk_gives_a_message_back_that_compares_equal(asking):
    said = REPLIES["all"]

    async def ask(client: Any) -> str:
        first = await client.messages.create(**QUESTION)
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": "r"} for call in said.calls]
        asked = [HELLO, {"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
        body = json.loads(json.dumps(asked, default=lambda block: block.to_dict()))
        return messages.read(QUESTION | {"messages": body}).messages[1].key()

    assert asking(said, ask) == ChatMessage("assistant", said.text, said.calls, said.thinking).key()


def test_the_sdk_raises_its_own_error(asking):
    anthropic = pytest.importorskip("anthropic")

    async def ask(client: Any) -> Any:
        with pytest.raises(anthropic.BadRequestError) as caught:
            await client.messages.create(**QUESTION, tool_choice={"type": "any"})
        return caught.value

    error = asking(reply(), ask)
    assert anthropic.types.ErrorResponse.model_validate(error.body, strict=True).error.type == "invalid_request_error"
    assert "tool_choice forces a call" in error.message
