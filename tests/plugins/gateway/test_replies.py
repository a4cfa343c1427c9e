"""Replies as the SDKs see them: their types take all of it, a stream adds up, and what comes back is what was said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2
import pytest
from agent_r1_gateway.dialects import chat, messages, responses
from agent_r1_gateway.dialects.fields import Dialect
from agent_r1_gateway.wire import Call, ChatMessage, Refused, Reply, TokenLogprob
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

HELLO = {"role": "user", "content": "Hello"}
SCHEMA = {"type": "object", "properties": {}}
TOOLS = [
    {"type": "function", "name": "look", "description": "Look.", "parameters": SCHEMA, "strict": False},
    {"type": "custom", "name": "patch"},
    {
        "type": "namespace",
        "name": "maps",
        "description": "Maps.",
        "tools": [{"type": "function", "name": "look", "parameters": SCHEMA}, {"type": "custom", "name": "draw"}],
    },
    {"type": "web_search"},
]
REPLY = Reply("r1", 1_700_000_000, prompt_tokens=30, completion_tokens=7)
CALLS = (Call("search", {"q": "Käse \N{CHEESE WEDGE}", "n": 1.0, "deep": [None, True]}, "c1"), Call("now", {}, "c2"))
TOKENS = (*(TokenLogprob(text, -0.25) for text in ["Hel", "lo", "\ufffd"] * 40), TokenLogprob("!", float("-inf")))
LONG = (Call("search", {"q": "z" * 9000}, "c1"),)
REPLIES = {
    "text": replace(REPLY, text="Hello <tool_call>"),
    "nothing": REPLY,
    "thinking": replace(REPLY, text="Hello, é.", thinking="Hm…\n\N{CHEESE WEDGE} "),
    "thinking alone": replace(REPLY, thinking="hm"),
    "calls": replace(REPLY, calls=CALLS),
    "all": replace(REPLY, text="a\n\u2028b\r", thinking="h\n\nm", calls=CALLS),
    "cut": replace(REPLY, text="Hel", cut=True),
    "cut in thinking": replace(REPLY, thinking="Hm", cut=True),
    "stopped": replace(REPLY, text="Hel", stopped_by="lo"),
    "long": replace(REPLY, text="x\N{CHEESE WEDGE}" * 5000, thinking="y" * 9000, calls=LONG),
    "logprobs": replace(REPLY, text="Hello", logprobs=TOKENS),
}
NO_JSON = {"text for arguments": replace(REPLY, calls=(Call("search", "[1", "c1"),))}
OTHER_TOOLS = {
    "names": replace(REPLY, calls=(Call("look", {}, "c1"), Call("maps__look", {}, "c2"), Call("no", {}, "c3"))),
    "custom": replace(
        REPLY, calls=(Call("patch", {"input": '{"a": 1}'}, "c1"), Call("maps__draw", {"input": ""}, "c2"))
    ),
    "malformed": replace(
        REPLY,
        calls=tuple(Call("patch", given, f"c{at}") for at, given in enumerate(("*** go", {"text": "x"}, {"input": 1}))),
    ),
}


@dataclass(frozen=True)
class Api:
    """A dialect and what its SDK has for it."""

    dialect: Dialect
    client: str
    base_url: str
    body: dict[str, Any]
    wrong: dict[str, Any]
    """What it refuses."""
    types: tuple[str, str]
    """Of a reply, and of an event of its stream."""
    create: Callable[[Any, dict[str, Any]], Any]
    accumulate: Callable[[Any, dict[str, Any]], Any]
    """The reply from a stream, by the SDK's own helper."""
    back: Callable[[Any], dict[str, Any]]
    """The fields with which a client goes on from a reply."""
    replies: dict[str, Reply] = field(default_factory=dict)
    """Further ones."""

    def request(self, **fields: Any) -> Any:
        return self.dialect.read(self.body | fields)

    def write(self, reply: Reply) -> dict[str, Any]:
        return self.dialect.write(reply, self.request())


USAGE: dict[str, Any] = {"stream_options": {"include_usage": True}}


async def chat_stream(client: Any, body: dict[str, Any]) -> Any:
    async with client.chat.completions.stream(**body, **USAGE) as stream:
        await stream.until_done()
        return stream.current_completion_snapshot


async def messages_stream(client: Any, body: dict[str, Any]) -> Any:
    async with client.messages.stream(**body) as stream:
        return await stream.get_final_message()


async def responses_stream(client: Any, body: dict[str, Any]) -> Any:
    async with client.responses.stream(**body) as stream:
        return [event async for event in stream][-1].response


def assistant(message: Any) -> dict[str, Any]:
    content = [block.to_dict() for block in message.content]
    return {"messages": [HELLO, {"role": "assistant", "content": content}, HELLO]}


CHAT = Api(
    chat,
    "openai:AsyncOpenAI",
    "http://gateway/v1",
    {"model": "policy", "messages": [HELLO], "logprobs": True},
    {"n": 2},
    ("openai.types.chat:ChatCompletion", "openai.types.chat:ChatCompletionChunk"),
    lambda client, body: client.chat.completions.create(**body),
    chat_stream,
    lambda completion: {"messages": [HELLO, completion.choices[0].message.to_dict(), HELLO]},
    NO_JSON,
)
MESSAGES = Api(
    messages,
    "anthropic:AsyncAnthropic",
    "http://gateway",
    {"model": "policy", "max_tokens": 50, "messages": [HELLO]},
    {"tool_choice": {"type": "any"}},
    ("anthropic.types:Message", "anthropic.types:RawMessageStreamEvent"),
    lambda client, body: client.messages.create(**body),
    messages_stream,
    assistant,
)
BETA = replace(
    MESSAGES,
    types=("anthropic.types.beta:BetaMessage", "anthropic.types.beta:BetaRawMessageStreamEvent"),
    create=lambda client, body: client.beta.messages.create(**body),
    accumulate=lambda client, body: messages_stream(client.beta, body),
)
RESPONSES = Api(
    responses,
    "openai:AsyncOpenAI",
    "http://gateway/v1",
    {
        "model": "policy",
        "input": "Hello",
        "tools": TOOLS,
        "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
        "metadata": {"run": "1"},
    },
    {"conversation": "conv_0"},
    ("openai.types.responses:Response", "openai.types.responses:ResponseStreamEvent"),
    lambda client, body: client.responses.create(**body),
    responses_stream,
    lambda response: {"input": [HELLO, *(item.to_dict() for item in response.output), HELLO]},
    NO_JSON | OTHER_TOOLS,
)
APIS = {"chat": CHAT, "messages": MESSAGES, "messages beta": BETA, "responses": RESPONSES}
each_reply = pytest.mark.parametrize(
    ("api", "reply"),
    [
        pytest.param(api, reply, id=f"{title}-{name}")
        for title, api in APIS.items()
        for name, reply in (REPLIES | api.replies).items()
    ],
)


def of_sdk(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(pytest.importorskip(module), name)


def frame(name: str | None, data: Any) -> str:
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "") + f"data: {text}\n\n"


def asking(api: Api, said: Reply, function: Callable[[Any], Any]) -> Any:
    """What a function does with the SDK's client and a server that has one reply."""

    async def answer(http: Request) -> Response:
        try:
            request = api.dialect.read(await http.json())
        except Refused as refused:
            return JSONResponse(api.dialect.error(refused), refused.status)
        if not request.stream:
            return JSONResponse(api.dialect.write(said, request))
        stream = "".join(frame(*event) for event in api.dialect.events(said, request))
        return Response(stream, media_type="text/event-stream")

    async def run() -> Any:
        app = Starlette(routes=[Route(path, answer, methods=["POST"]) for path in api.dialect.PATHS])
        http = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app))
        given = {"base_url": api.base_url, "api_key": "k", "http_client": http, "max_retries": 0}
        async with of_sdk(api.client)(**given, _strict_response_validation=True) as client:
            return await function(client)

    return asyncio.run(run())


def unknown_names(model: Any, at: str = "") -> Iterator[str]:
    """Names that the SDK's types do not have; but all clients of open models know `reasoning_content`."""
    if isinstance(model, list):
        for index, one in enumerate(model):
            yield from unknown_names(one, f"{at}[{index}]")
    if hasattr(model, "model_fields_set"):
        yield from (f"{at}.{name}" for name in model.model_extra or () if name != "reasoning_content")
        for name in type(model).model_fields:
            yield from unknown_names(getattr(model, name), f"{at}.{name}")


@each_reply
def test_the_types_take_a_reply_and_its_events_strictly(api: Api, reply: Reply) -> None:
    pydantic = pytest.importorskip("pydantic")
    whole, event = (pydantic.TypeAdapter(of_sdk(where)) for where in api.types)
    written = [whole.validate_json(json.dumps(api.write(reply), allow_nan=False), strict=True)]
    for name, data in api.dialect.events(reply, api.request(stream=True, **(USAGE if api is CHAT else {}))):
        if not isinstance(data, str):
            written.append(event.validate_json(json.dumps(data, allow_nan=False), strict=True))
            assert name is None or written[-1].type == name

    assert [name for one in written for name in unknown_names(one)] == []


def holds(more: Any, less: Any) -> bool:
    """Whether `more` has all that `less` has."""
    if isinstance(less, dict):
        return isinstance(more, dict) and all(holds(more.get(name), value) for name, value in less.items())
    if isinstance(less, list):
        return len(more) == len(less) and all(map(holds, more, less))
    return bool(more == less)


@each_reply
def test_a_stream_adds_up_to_the_reply_and_what_a_client_sends_back_to_what_was_said(api: Api, reply: Reply) -> None:
    async def ask(client: Any) -> tuple[Any, Any]:
        return await api.create(client, api.body), await api.accumulate(client, api.body)

    whole, streamed = asking(api, reply, ask)
    assert holds(*(one.model_dump(mode="json", exclude_none=True) for one in (streamed, whole)))
    back = json.loads(json.dumps(api.back(whole)))
    said = ChatMessage("assistant", reply.text, reply.calls, reply.thinking)

    assert [one.key() for one in api.request(**back).messages[1:-1]] == [said.key()]


@pytest.mark.parametrize("api", APIS.values(), ids=APIS)
def test_the_sdk_raises_its_own_error(api: Api) -> None:
    sdk = pytest.importorskip(api.client.partition(":")[0])
    (name,) = api.wrong

    async def ask(client: Any) -> Any:
        with pytest.raises(sdk.BadRequestError, match=name) as caught:
            await api.create(client, api.body | api.wrong | {"stream": True})
        return caught.value

    error = asking(api, REPLY, ask)
    if api.dialect is messages:
        error = sdk.types.ErrorResponse.model_validate(error.body, strict=True).error
    else:
        assert error.param == name
    assert error.type == "invalid_request_error"


def test_why_a_reply_ended() -> None:
    names = ("text", "calls", "cut", "stopped")
    ended = [CHAT.write(REPLIES[name])["choices"][0]["finish_reason"] for name in names]
    assert ended == ["stop", "tool_calls", "length", "stop"]
    written = [MESSAGES.write(REPLIES[name]) for name in names]
    assert [one["stop_reason"] for one in written] == ["end_turn", "tool_use", "max_tokens", "stop_sequence"]
    assert [one["stop_sequence"] for one in written] == [None, None, None, "lo"]
    ended = [RESPONSES.write(REPLIES[name])["status"] for name in names]
    assert ended == ["completed", "completed", "incomplete", "completed"]


def test_messages_say_text_or_call_and_have_json_for_arguments() -> None:
    kinds = {name: [block["type"] for block in MESSAGES.write(said)["content"]] for name, said in REPLIES.items()}
    assert (kinds["nothing"], kinds["thinking alone"]) == (["text"], ["thinking", "text"])
    assert kinds["calls"] == ["tool_use", "tool_use"]
    calls = (Call("search", {"n": [float("nan"), float("inf")]}, "t1"), Call("search", "[1", "t2"))
    content = MESSAGES.write(replace(REPLY, calls=calls))["content"]
    assert [block["input"] for block in content] == [{"n": [None, None]}, {"input": "[1"}]


def test_a_stream_of_messages_has_the_api_s_events() -> None:
    data = [one for _, one in messages.events(REPLIES["all"], MESSAGES.request())]
    shown = [one.get("delta", {}).get("type", one["type"]) for one in data]
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


@pytest.mark.parametrize("name", ["text", "all", "cut", "logprobs"])
def test_a_stream_of_responses_has_the_api_s_events(name: str) -> None:
    reply = REPLIES[name]
    whole, events = RESPONSES.write(reply), [data for _, data in responses.events(reply, RESPONSES.request())]
    deltas: dict[str, str] = {}
    for number, event in enumerate(events):
        assert event["sequence_number"] == number
        if event["type"].endswith(".delta"):
            deltas[event["type"]] = deltas.get(event["type"], "") + event["delta"]

    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert (events[-1]["type"], events[-1]["response"]) == (f"response.{whole['status']}", whole)
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == whole["output"]
    assert deltas.get("response.output_text.delta", "") == reply.text
    assert deltas.get("response.reasoning_summary_text.delta", "") == reply.thinking
