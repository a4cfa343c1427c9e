"""OpenAI's Responses API, as the SDK's `responses.create` and Codex speak it.

A request sends the whole conversation, or refers to replies that its program has had. Reasoning goes out as a summary
and, where the request includes it, once more as `encrypted_content`, which clients return unread; it is encoded there,
not encrypted.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agent_r1_gateway.dialects.fields import fields
from agent_r1_gateway.dialects.response_events import RAW, SEALED, events, write
from agent_r1_gateway.dialects.response_tools import Tool, read_tools
from agent_r1_gateway.dialects.shapes import Given, calls_allowed, conversation, listed, opened
from agent_r1_gateway.dialects.shapes import openai_error as error
from agent_r1_gateway.wire import Call, ChatMessage, ChatRequest, Refused, Reply, Role, read_arguments

__all__ = ["FIELDS", "NAME", "PATHS", "error", "events", "read", "recall", "write"]

NAME = "responses"
PATHS = ("/v1/responses", "/responses")

_ANSWERED = "each request is answered; leave out those that only warm a cache"
_LOGPROBS = "message.output_text.logprobs"
FIELDS = fields(
    honoured={
        "model": "names the policy, or another model of the recipe",
        "input": "text, calls, their outputs, reasoning and references to items of replies; no images or files",
        "previous_response_id": "a reply that the program has had; all that was asked and answered comes before input",
        "instructions": "the first system message",
        "tools": "functions, custom tools, namespaces; web_search and tool_search have no effect",
        "tool_choice": "auto and none; others are refused",
        "max_output_tokens": "most tokens of the reply, reasoning included",
        "stream": "events follow once the reply is complete",
        "include": "reasoning.encrypted_content, message.output_text.logprobs; others add nothing",
        "text": "the format text; others are refused, verbosity has no effect",
        "store": "with false, no later request can refer to the reply; else those among the next 1,000 can",
        "prompt_cache_options": "prewarm is refused, the rest has no effect",
    },
    refused={
        "conversation": ("no conversations are stored here; send previous_response_id, or all of it in input",),
        "prompt": ("no prompts are stored here; send the text itself",),
        "background": ("replies are not stored; wait for them", False),
        "generate": (_ANSWERED, True),
        "top_logprobs": ("log-probs of the sampled tokens alone are known", 0),
        "moderation": ("no moderation model runs here; leave it out",),
    },
    ignored="""
        temperature top_p reasoning parallel_tool_calls max_tool_calls truncation context_management metadata
        client_metadata user safety_identifier prompt_cache_key prompt_cache_retention service_tier stream_options
        background_options image access_programs
    """,
)

_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_TEXT_IN: Mapping[str, str | None] = {
    **dict.fromkeys(("input_text", "output_text", "text", "summary_text", "reasoning_text"), "text"),
    **{kind: kind for kind in ("refusal", "encrypted_content")},
}
"""By the type of a part, the field with its text. Codex passes on as encrypted what the policy tells a sub-agent."""


Answered = Mapping[str, tuple[ChatRequest, Reply]]
"""What a program has asked in this API, and the replies to it, by the ids of the replies."""


def recall(body: dict[str, Any], answered: Callable[[], Answered]) -> dict[str, Any]:
    """A body with the conversation and the items that it refers to in its input.

    Raises:
        Refused: no such reply to the program was stored.
    """
    before, items = body.get("previous_response_id"), _items(body)
    if before is None and not any(map(_referring, items)):
        return body
    replies = {name: one for name, one in answered().items() if one[0].body.get("store") is not False}
    if before is not None:
        if (found := replies.get(_reply_id(before))) is None:
            raise Refused(
                f"previous_response_id is {before!r:.60}, and no such reply to this program was stored, or 1,000 came "
                "since; send the whole conversation in input",
                field="previous_response_id",
                code="previous_response_not_found",
            )
        request, reply = found
        items = [*_items(request.body), *write(reply, request)["output"], *items]
    given = {one["id"]: one for item in filter(_referring, items) for one in _output_with(item, replies)}
    return body | {"input": [given.get(str(item["id"]), item) if _referring(item) else item for item in items]}


def _items(body: Mapping[str, Any]) -> list[Any]:
    """The input as a list; empty where it has another shape."""
    given = body.get("input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else given if isinstance(given, list) else []


def _referring(item: Any) -> bool:
    """Whether an item of the input refers to another one; Vercel's SDK does by default."""
    return isinstance(item, Mapping) and item.get("type") == "item_reference" and "id" in item


def _output_with(item: Mapping[str, Any], replies: Answered) -> list[dict[str, Any]]:
    """The items of the reply of which one is meant."""
    found = replies.get(_reply_id(item["id"]))
    return [] if found is None else list(write(found[1], found[0])["output"])


def _reply_id(name: Any) -> str:
    """Of a response's or an item's id: `resp_REPLY`, `fc_REPLY_0`."""
    return [*str(name).split("_"), ""][1]


def read(body: Mapping[str, Any]) -> ChatRequest:
    """What a request means.

    Raises:
        Refused: it has a wrong shape, or asks for what the gateway cannot do.
    """
    given, ignored = opened(body, FIELDS)
    tools, without_effect = read_tools(given)
    ignored += [*_check_values(given), *without_effect]
    return ChatRequest(
        model=given["model"].string(),
        messages=_messages(given),
        tools=tools if calls_allowed(given["tool_choice"].value) else (),
        max_tokens=given["max_output_tokens"].count(),
        stream=given["stream"].flag(),
        logprobs=_LOGPROBS in (given["include"].value or ()),
        ignored=listed(ignored, ()),
        body=given.value,
    )


def _check_values(given: Given) -> list[str]:
    """Refuse what honoured fields may not ask for; list what they ask for without effect."""
    given["store"].flag()
    given["previous_response_id"].text()
    if not isinstance(given["include"].value, list | None):
        given["include"].wrong("a list of strings")
    text, options = given["text"], given["prompt_cache_options"]
    form = text["format"].value
    if form is not None and not (isinstance(form, Mapping) and form.get("type") == "text"):
        text["format"].refuse("cannot be forced; set text.format.type to text")
    if options["prewarm"].value:
        options["prewarm"].refuse(f"cannot be honoured: {_ANSWERED}")
    return sorted(text.unread("format") | options.unread("prewarm"))


def _messages(given: Given) -> tuple[ChatMessage, ...]:
    items, instructions = given["input"], given["instructions"]
    parts = [] if instructions.value is None else [ChatMessage("system", instructions.text())]
    if isinstance(items.value, str):
        parts.append(ChatMessage("user", items.value))
    elif not isinstance(items.value, list):
        items.wrong("a string or a list of items")
    elif not items.value:
        items.refuse("is empty; give at least one item")
    else:
        parts += [part for item in items for part in _parts(item)]
    messages = conversation(parts, _goes_on)
    if not messages or messages[-1].role == "assistant":
        items.refuse("ends with what the model said; end with a message, or with the output of a call")
    return messages


def _goes_on(last: ChatMessage, one: ChatMessage) -> bool:
    """Whether an item is of the same reply, which has reasoning, text and calls: reasoning or text behind text begins
    another one, unless there are calls."""
    return bool(one.calls or last.calls) or not last.text


def _parts(item: Given) -> Iterator[ChatMessage]:
    """An item as a message, or as a part of the model's."""
    kind = Given(item.object().get("type", "message"), f"{item.where}.type").string()
    if kind == "message":
        named = item["role"].string()
        if named not in _ROLES:
            item["role"].refuse(f"is {named[:60]!r}; the gateway takes user, assistant, system or developer")
        yield ChatMessage(_ROLES[named], item["content"].joined(_TEXT_IN))
    elif kind == "agent_message":
        yield ChatMessage("user", item["content"].joined(_TEXT_IN))
    elif kind == "reasoning":
        if thinking := _thinking(item):
            yield ChatMessage("assistant", thinking=thinking)
    elif kind in ("function_call", "custom_tool_call"):
        yield ChatMessage("assistant", calls=(_call(item, custom=kind == "custom_tool_call"),))
    elif kind in ("function_call_output", "custom_tool_call_output"):
        output, called = item["output"], item["call_id"].value
        if output.value is None:
            output.wrong("a string or a list of text blocks")
        yield ChatMessage("tool", output.joined(_TEXT_IN), name=called if isinstance(called, str) else "")
    elif kind == "item_reference":
        item.refuse("refers to an item of no reply to this program that was stored; send the item itself")
    elif kind != "additional_tools":
        item.refuse(f"has the type {kind[:80]!r}, which the gateway does not read; leave it out")


def _call(item: Given, custom: bool) -> Call:
    namespace = item["namespace"]
    tool = Tool(item["name"].string(), None if namespace.value is None else namespace.string())
    given = item["input" if custom else "arguments"]
    if not isinstance(given.value, str) and (custom or not isinstance(given.value, Mapping)):
        given.wrong("a string")
    wrapped = custom and not str(item["id"].value).startswith(RAW)
    arguments = read_arguments({"input": given.value} if wrapped else given.value)
    return Call(tool.flat, arguments, item["call_id"].string())


def _thinking(item: Given) -> str:
    """What the gateway put into a reasoning item; its summary or its text where another server wrote it."""
    sealed = item["encrypted_content"]
    if isinstance(sealed.value, str) and sealed.value.startswith(SEALED):
        try:
            return base64.b64decode(sealed.value.removeprefix(SEALED), validate=True).decode()
        except ValueError:
            sealed.refuse("is not what the gateway wrote; send it back as it came")
    return item["summary"].joined(_TEXT_IN) or item["content"].joined(_TEXT_IN)
