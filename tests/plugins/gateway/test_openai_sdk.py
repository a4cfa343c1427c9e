"""Chat Completions: the `openai` SDK takes replies, streams and errors as its own, and gives back what was said."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from agent_r1_gateway.dialects import chat
from agent_r1_gateway.wire import Call, ChatMessage, Reply, TokenLogprob

HELLO = {"role": "user", "content": "Hello"}


def body(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "policy", "messages": [*messages] or [HELLO], **fields}


def reply(**fields: Any) -> Reply:
    return Reply("r1", 1700000000, prompt_tokens=30, completion_tokens=7, **fields)


CALLS = (
    Call("search", {"q": "Käse \N{CHEESE WEDGE}", "n": 1.0, "deep": [None, True]}, "call_1"),
    Call("now", {}, "call_2"),
)
TOKENS = tuple(TokenLogprob(text, -0.25 * at) for at, text in enumerate(["Hel", "lo", "\ufffd"] * 40))
REPLIES = {
    "text": reply(text="Hello <tool_call>"),
    "nothing": reply(),
    "thinking": reply(text="Hello", thinking="hm"),
    "calls": reply(calls=CALLS),
    "all": reply(text="a\n\u2028b\r", thinking="h\n\nm", calls=CALLS),
    "cut": reply(text="Hel", cut=True),
    "stopped": reply(text="Hel", stopped_by="lo"),
    "long": reply(
        text="x\N{CHEESE WEDGE}" * 5000, thinking="y" * 9000, calls=(Call("search", {"q": "z" * 9000}, "c"),)
    ),
    "logprobs": reply(text="Hello", logprobs=TOKENS),
    "unlikely": reply(text="Hello", logprobs=(TokenLogprob("Hello", float("-inf")),)),
    "text for arguments": reply(calls=(Call("search", "[1", "c"),)),
}


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_that_comes_back_compares_equal_to_what_was_said(name):
    said = REPLIES[name]
    written = json.loads(json.dumps(chat.write(said, chat.read(body())), allow_nan=False))
    request = chat.read(body(HELLO, written["choices"][0]["message"], HELLO))
    assert request.messages[1].key() == ChatMessage("assistant", said.text, said.calls, said.thinking).key()


def test_why_a_reply_ended():
    reasons = {
        name: chat.write(said, chat.read(body()))["choices"][0]["finish_reason"] for name, said in REPLIES.items()
    }
    assert [reasons[name] for name in ("text", "calls", "cut", "stopped")] == ["stop", "tool_calls", "length", "stop"]


def test_log_probs_and_usage_come_where_they_are_asked_for():
    said = REPLIES["logprobs"]
    assert chat.write(said, chat.read(body()))["choices"][0]["logprobs"] is None
    shown = chat.write(said, chat.read(body(logprobs=True)))["choices"][0]["logprobs"]["content"]
    assert [(token["token"], token["logprob"]) for token in shown] == [(one.text, one.logprob) for one in TOKENS]
    assert (shown[0]["bytes"], shown[2]["bytes"]) == ([72, 101, 108], None)
    *_, last, done = chat.events(said, chat.read(body(stream=True)))
    assert (done, "usage" in last[1]) == ((None, "[DONE]"), False)
    *chunks, last, _ = chat.events(said, chat.read(body(stream=True, stream_options={"include_usage": True})))
    assert all(chunk["usage"] is None for _, chunk in chunks)
    assert (last[1]["choices"], last[1]["usage"]["total_tokens"]) == ([], 37)


@pytest.fixture
def asking(through_sdk: Callable[..., Any]) -> Callable[[Reply, Callable[[Any], Any]], Any]:
    return partial(through_sdk, pytest.importorskip("openai").AsyncOpenAI, "http://gateway/v1", chat)


@pytest.mark.parametrize("name", REPLIES)
def test_the_sdk_s_types_take_replies_strictly(name):
    types = pytest.importorskip("openai.types.chat")
    said = REPLIES[name]
    written = json.dumps(chat.write(said, chat.read(body(logprobs=True))))
    completion = types.ChatCompletion.model_validate_json(written, strict=True)
    assert completion.model_extra == {}
    request = chat.read(body(stream=True, logprobs=True, stream_options={"include_usage": True}))
    *chunks, _ = chat.events(said, request)
    for _, chunk in chunks:
        read = types.ChatCompletionChunk.model_validate_json(json.dumps(chunk), strict=True)
        assert read.model_extra == {}
        assert all(choice.model_extra == {} for choice in read.choices)


def shown(completion: Any) -> dict[str, Any]:
    """A completion without what the SDK's stream adds to it."""
    dumped: dict[str, Any] = completion.model_dump(mode="json", exclude_none=True)
    for choice in dumped["choices"]:
        for call in choice["message"].get("tool_calls", ()):
            call.pop("index", None)
            call["function"].pop("parsed_arguments", None)
    return dumped


@pytest.mark.parametrize("name", REPLIES)
def test_the_sdk_reads_the_same_from_a_stream(asking, name):
    question = {"model": "policy", "messages": [HELLO], "logprobs": True}

    async def ask(client: Any) -> tuple[Any, Any]:
        whole = await client.chat.completions.create(**question)
        async with client.chat.completions.stream(**question, stream_options={"include_usage": True}) as stream:
            await stream.until_done()
            return whole, stream.current_completion_snapshot

    whole, streamed = asking(REPLIES[name], ask)
    assert shown(streamed) == shown(whole)


def test_the_sdk_gives_a_message_back_that_compares_equal(asking):
    said = REPLIES["all"]

    async def ask(client: Any) -> str:
        completion = await client.chat.completions.create(model="policy", messages=[HELLO])
        message = completion.choices[0].message
        returned = json.loads(json.dumps(message.to_dict()))
        return chat.read(body(HELLO, returned, HELLO)).messages[1].key()

    assert asking(said, ask) == ChatMessage("assistant", said.text, said.calls, said.thinking).key()


def test_the_sdk_raises_its_own_error(asking):
    openai = pytest.importorskip("openai")

    async def ask(client: Any) -> Any:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(model="policy", messages=[HELLO], n=2, stream=True)
        return caught.value

    error = asking(reply(), ask)
    assert (error.param, error.type) == ("n", "invalid_request_error")
    assert "ask several times" in error.message
