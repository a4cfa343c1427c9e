"""Replies in OpenAI's Responses API, as the SDK's own types and its client read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from agent_r1_gateway.dialects import responses
from agent_r1_gateway.wire import Call, ChatMessage, Reply, TokenLogprob

openai = pytest.importorskip("openai", minversion="3")
types = pytest.importorskip("openai.types.responses")

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
BODY = {
    "model": "policy",
    "input": "Where?",
    "instructions": "Be brief.",
    "tools": TOOLS,
    "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
    "metadata": {"run": "1"},
    "store": False,
}
REPLY = Reply("r1", 1_700_000_000, prompt_tokens=9, completion_tokens=3)
REPLIES = {
    "text": replace(REPLY, text="There."),
    "nothing": REPLY,
    "thinking": replace(REPLY, text="There, é.", thinking="Hm…\n😀 "),
    "cut in thinking": replace(REPLY, thinking="Hm", cut=True),
    "cut": replace(REPLY, text="The", cut=True),
    "calls": replace(
        REPLY,
        text="I look.",
        thinking="Hm.",
        calls=(Call("look", {"at": [1, 2.0, True, "é"]}, "c1"), Call("maps__look", {}, "c2"), Call("no", {}, "c3")),
    ),
    "custom": replace(
        REPLY, calls=(Call("patch", {"input": '{"a": 1}'}, "c1"), Call("maps__draw", {"input": ""}, "c2"))
    ),
    "malformed": replace(
        REPLY,
        calls=(
            Call("look", "at the map", "c1"),
            Call("patch", "*** go", "c2"),
            Call("patch", {"text": "*** go"}, "c3"),
            Call("patch", {"input": 1}, "c4"),
        ),
    ),
    "logprobs": replace(REPLY, text="There.", logprobs=(TokenLogprob("The", -0.5), TokenLogprob("re.", float("-inf")))),
}
each_reply = pytest.mark.parametrize("name", REPLIES)


@pytest.fixture
def served(through_sdk: Callable[..., Any]) -> Callable[..., Any]:
    """What `use` makes of the SDK's client and the body, with a server behind it that gives this reply."""

    def served(reply: Reply, use: Callable[[Any, dict[str, Any]], Any], **fields: Any) -> Any:
        ask = partial(use, body=BODY | fields)
        return through_sdk(openai.AsyncOpenAI, "http://gateway/v1", responses, reply, ask)

    return served


async def create(client: Any, body: dict[str, Any]) -> Any:
    return await client.responses.create(**body)


async def events_of(client: Any, body: dict[str, Any]) -> list[Any]:
    return [event async for event in await client.responses.create(**body, stream=True)]


async def accumulate(client: Any, body: dict[str, Any]) -> Any:
    async with client.responses.stream(**body) as stream:
        return [event async for event in stream]


def unknown_names(model: Any, at: str = "") -> list[str]:
    """Names that the SDK's types do not have."""
    if isinstance(model, list):
        return [name for index, one in enumerate(model) for name in unknown_names(one, f"{at}[{index}]")]
    if not hasattr(model, "model_fields_set"):
        return []
    found = [f"{at}.{name}" for name in model.model_extra or ()]
    return found + [
        name for field in type(model).model_fields for name in unknown_names(getattr(model, field), f"{at}.{field}")
    ]


@each_reply
def test_a_reply_is_what_the_types_of_the_sdk_say(name: str) -> None:
    request = responses.read(BODY)
    response = types.Response.model_validate(responses.write(REPLIES[name], request), strict=True)

    assert unknown_names(response) == []
    assert response.usage.total_tokens == 12
    assert response.output_text == REPLIES[name].text
    assert response.metadata == {"run": "1"}
    assert response.status == ("incomplete" if REPLIES[name].cut else "completed")


@each_reply
def test_every_event_is_what_the_types_of_the_sdk_say(name: str) -> None:
    pydantic = pytest.importorskip("pydantic")
    adapter = pydantic.TypeAdapter(types.ResponseStreamEvent)
    events = responses.events(REPLIES[name], responses.read(BODY))
    read = [adapter.validate_python(data, strict=True) for _, data in events]

    assert [unknown_names(event) for event in read] == [[] for _ in events]
    assert [event.type for event in read] == [kind for kind, _ in events]
    assert [event.sequence_number for event in read] == list(range(len(events)))


@each_reply
def test_the_stream_adds_up_to_the_reply(served, name: str) -> None:
    reply = REPLIES[name]
    whole = served(reply, create)
    events = served(reply, events_of)
    deltas: dict[str, str] = {}
    for event in events:
        if event.type.endswith(".delta"):
            deltas[event.type] = deltas.get(event.type, "") + event.delta

    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1].type == f"response.{whole.status}"
    assert events[-1].response.model_dump() == whole.model_dump()
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert [item.model_dump() for item in done] == [item.model_dump() for item in whole.output]
    assert deltas.get("response.output_text.delta", "") == reply.text
    assert deltas.get("response.reasoning_summary_text.delta", "") == reply.thinking
    arguments = [item.arguments for item in whole.output if item.type == "function_call"]
    assert deltas.get("response.function_call_arguments.delta", "") == "".join(arguments)


@each_reply
def test_the_stream_helper_of_the_sdk_accumulates_the_reply(served, name: str) -> None:
    whole = served(REPLIES[name], create)
    last = served(REPLIES[name], accumulate)[-1].response

    assert (last.status, last.output_text, last.usage) == (whole.status, whole.output_text, whole.usage)
    for kept, sent in zip(last.output, whole.output, strict=True):
        own = sent.to_dict()
        own.pop("content", None)
        assert {key: kept.to_dict()[key] for key in own} == own


@each_reply
def test_a_client_that_keeps_the_output_continues_what_was_said(served, name: str) -> None:
    reply = REPLIES[name]
    kept = [item.to_dict() for item in served(reply, create).output]
    outputs = [{"type": "function_call_output", "call_id": call.id, "output": "x"} for call in reply.calls]
    where, so = ({"role": "user", "content": text} for text in ("Where?", "So?"))
    request = responses.read(BODY | {"input": [where, *kept, *outputs, so]})
    said = ChatMessage("assistant", reply.text, reply.calls, reply.thinking)

    assert [message.key() for message in request.messages[:3]] == [
        ChatMessage("system", "Be brief.").key(),
        ChatMessage("user", "Where?").key(),
        said.key(),
    ]
    assert [message.name for message in request.messages[3:-1]] == [call.name for call in reply.calls]


def test_reasoning_is_sealed_only_where_the_request_includes_it() -> None:
    request = responses.read({"model": "policy", "input": "Where?"})
    reasoning, _ = responses.write(REPLIES["thinking"], request)["output"]

    assert reasoning["encrypted_content"] is None
    assert reasoning["summary"] == [{"type": "summary_text", "text": "Hm…\n😀 "}]


def test_sealed_reasoning_counts_more_than_a_summary_that_the_client_wrote(served) -> None:
    kept = [item.to_dict() for item in served(REPLIES["thinking"], create).output]
    kept[0]["summary"] = [{"type": "summary_text", "text": "Ha."}]
    request = responses.read(BODY | {"input": [*kept, {"role": "user", "content": "So?"}]})

    assert request.messages[1].thinking == "Hm…\n😀 "


def test_calls_carry_the_names_that_the_client_knows(served) -> None:
    calls = [item for item in served(REPLIES["calls"], create).output if item.type == "function_call"]

    assert [(call.namespace, call.name, call.call_id) for call in calls] == [
        (None, "look", "c1"),
        ("maps", "look", "c2"),
        (None, "no", "c3"),
    ]
    patch, draw = served(REPLIES["custom"], create).output
    assert (patch.type, patch.namespace, patch.name, patch.input) == ("custom_tool_call", None, "patch", '{"a": 1}')
    assert (draw.type, draw.namespace, draw.name, draw.input) == ("custom_tool_call", "maps", "draw", "")


def test_the_sdk_raises_what_is_refused(served) -> None:
    with pytest.raises(openai.BadRequestError, match="nothing is stored here") as raised:
        served(REPLY, create, previous_response_id="resp_0")

    assert raised.value.param == "previous_response_id"
    assert raised.value.type == "invalid_request_error"
