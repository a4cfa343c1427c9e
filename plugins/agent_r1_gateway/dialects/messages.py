"""Anthropic's Messages, and the requests that only count tokens.

Adjacent messages of the assistant are one, as in the API. Redacted thinking is dropped: no model of ours wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agent_r1_gateway.dialects.fields import fields
from agent_r1_gateway.dialects.shapes import (
    Given,
    calls_allowed,
    conversation,
    function_tool,
    listed,
    messages_of,
    opened,
    pieces,
)
from agent_r1_gateway.wire import Call, ChatMessage, ChatRequest, Refused, Reply, read_arguments

NAME = "messages"
PATHS = ("/v1/messages", "/messages")

FIELDS = fields(
    honoured={
        "messages": "text, calls, results and thinking; images and documents are refused",
        "model": "the recipe says which names are the policy",
        "system": "but for a block that begins with `x-anthropic-billing-header:`: it changes in every request",
        "max_tokens": "thinking counts",
        "stop_sequences": "any number of them",
        "stream": "the stream opens when the reply is complete",
        "tools": "those with `input_schema`; tools that the API itself runs have no effect",
        "tool_choice": "`auto` and `none`; else refused, since the policy decides what it calls",
        "output_config": "`format` is refused, since nothing constrains the policy; the rest has no effect",
    },
    refused={
        "compaction": ("its reply is no message; ask for a summary in words",),
        "thread": ("the gateway keeps no conversation; send all messages",),
        "output_format": ("nothing constrains the policy; ask for it in words",),
    },
    ignored="""
        temperature top_k top_p thinking betas billing_policy cache_control container context_management diagnostics
        fallback_credit_token fallbacks inference_geo mcp_servers metadata service_tier speed user_profile_id
        workspace_id
    """,
)

SIGNATURE = "YWdlbnQtcjE="
"""Of every thinking block. The API signs what its model thought; here nobody checks it."""
_NO_FORMAT = "output_config.format: Extra inputs are not permitted"
"""At these words, the API's own where a model has no such output, Claude Code asks again without it."""
_BILLING = "x-anthropic-billing-header:"
_SERVER_TOOLS = ("web_search", "web_fetch", "code_execution", "tool_search_tool", "advisor", "mcp_toolset")
"""How the types of tools begin that the API itself runs."""


def read(body: Mapping[str, Any]) -> ChatRequest:
    """What a request means.

    Raises:
        Refused: it asks for what the gateway cannot do, or has the wrong shape.
    """
    request = _request(body, prefill="end with a user's message")
    if request.max_tokens is None:
        Given(None, "max_tokens").wrong("a whole number")
    return request


def count(body: Mapping[str, Any]) -> ChatRequest:
    """What a request means that asks for the number of its tokens alone.

    Raises:
        Refused: as `read`; but `max_tokens` may be missing, and the assistant may speak last.
    """
    return _request(body, prefill="")


def _request(body: Mapping[str, Any], prefill: str) -> ChatRequest:
    given, ignored = opened(body, FIELDS)
    messages, output = messages_of(given, prefill), given["output_config"]
    if output["format"].value is not None:
        raise Refused(f"{_NO_FORMAT}, since nothing constrains the policy; ask in words", field=output["format"].where)
    tools, dropped = _tools(given)
    dropped |= output.unread("format").union(*(message.unread("role", "content") for message in messages))
    return ChatRequest(
        model=given["model"].string(),
        messages=(*_system(given["system"]), *conversation(_messages(messages), lambda last, one: True)),
        tools=tools,
        max_tokens=given["max_tokens"].count(),
        stop=given["stop_sequences"].strings(),
        stream=given["stream"].flag(),
        ignored=listed(ignored, dropped),
        body=given.value,
    )


def _system(given: Given) -> Iterator[ChatMessage]:
    if isinstance(given.value, list):
        blocks = [{**block, "text": ""} if _for_billing(block) else block for block in given.value]
        given = Given(blocks, given.where)
    if said := given.joined():
        yield ChatMessage("system", said)


def _for_billing(block: Any) -> bool:
    return isinstance(block, Mapping) and str(block.get("text")).startswith(_BILLING)


def _messages(given: list[Given]) -> Iterator[ChatMessage]:
    for message in given:
        role, content = message["role"].string(), message["content"]
        if not isinstance(content.value, str | list):
            content.wrong("a string or a list of blocks")
        if role == "system":
            yield ChatMessage("system", content.joined())
        elif role == "assistant":
            yield _assistant(content)
        elif role == "user":
            yield from _user(content)
        else:
            message["role"].refuse(f"is {role[:60]!r}; the gateway takes user, assistant or system")


def _assistant(content: Given) -> ChatMessage:
    if isinstance(content.value, str):
        return ChatMessage("assistant", content.value)
    said, thinking, calls = "", "", list[Call]()
    for block in content:
        kind = block["type"].value
        if kind == "thinking":
            thinking += block.block_text({"thinking": "thinking"})
        elif kind == "tool_use":
            calls.append(_call(block))
        elif kind != "redacted_thinking":
            said += block.block_text()
    return ChatMessage("assistant", said, tuple(calls), thinking)


def _call(block: Given) -> Call:
    given = block["input"]
    if not isinstance(given.value, str | Mapping):
        given.wrong("an object")
    return Call(block["name"].string(), read_arguments(given.value), block["id"].string())


def _user(content: Given) -> Iterator[ChatMessage]:
    """The results of calls and the texts, in their order."""
    if isinstance(content.value, str):
        yield ChatMessage("user", content.value)
        return
    said, answers = "", 0
    for block in content:
        if block["type"].value != "tool_result":
            said += block.block_text()
            continue
        if said:
            yield ChatMessage("user", said)
        result = block["content"].joined()
        if not result and block["is_error"].flag():
            result = "error"
        yield ChatMessage("tool", result, name=block["tool_use_id"].string())
        said, answers = "", answers + 1
    if said or not answers:
        yield ChatMessage("user", said)


def _tools(given: Given) -> tuple[tuple[dict[str, Any], ...], set[str]]:
    """The tools that the policy may call, and those that have no effect."""
    choice = given["tool_choice"].object()
    allowed = calls_allowed(choice.get("type", "") if choice else None)
    tools, dropped = list[dict[str, Any]](), set[str]()
    for tool in given["tools"]:
        kind, schema = tool["type"].value, tool["input_schema"]
        if schema.value is not None:
            tools.append(function_tool(tool, "input_schema"))
        elif isinstance(kind, str) and kind.startswith(_SERVER_TOOLS):
            dropped.add(f"tools[{kind[:60]}]")
        else:
            schema.refuse("is missing, and the policy knows no tool by its type; describe what it takes")
    return (tuple(tools) if allowed else ()), dropped


def write(reply: Reply, request: ChatRequest) -> dict[str, Any]:
    """The reply as a message."""
    content: list[dict[str, Any]] = []
    if reply.thinking:
        content.append({"type": "thinking", "thinking": reply.thinking, "signature": SIGNATURE})
    if reply.text or not reply.calls:
        content.append({"type": "text", "text": reply.text})
    content += [{"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call)} for call in reply.calls]
    reason = _reason(reply)
    return {
        "id": f"msg_{reply.id}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": reply.stopped_by if reason == "stop_sequence" else None,
        "usage": {
            "input_tokens": reply.prompt_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": reply.completion_tokens,
        },
    }


def events(reply: Reply, request: ChatRequest) -> list[tuple[str | None, dict[str, Any] | str]]:
    """The reply as events of a message."""
    whole = write(reply, request)
    end = {name: whole[name] for name in ("stop_reason", "stop_sequence")}
    begun = whole | {"content": [], "stop_reason": None, "stop_sequence": None}
    begun["usage"] = whole["usage"] | {"output_tokens": 0}
    data: list[dict[str, Any]] = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(whole["content"]):
        empty, deltas = _deltas(block)
        data.append({"type": "content_block_start", "index": index, "content_block": empty})
        data += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        data.append({"type": "content_block_stop", "index": index})
    data += [{"type": "message_delta", "delta": end, "usage": whole["usage"]}, {"type": "message_stop"}]
    return [(one["type"], one) for one in data]


def _deltas(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as its stream begins, and what is added."""
    if block["type"] == "text":
        return block | {"text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
    if block["type"] == "thinking":
        added = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
        added.append({"type": "signature_delta", "signature": block["signature"]})
        return block | {"thinking": "", "signature": ""}, added
    text = json.dumps(block["input"], ensure_ascii=False)
    return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(text)]


def _input(call: Call) -> dict[str, Any]:
    """The arguments as an object of JSON, which has no infinite numbers."""
    found: dict[str, Any] = json.loads(json.dumps(call.as_object), parse_constant=lambda _: None)
    return found


def _reason(reply: Reply) -> str:
    if reply.cut:
        return "max_tokens"
    if reply.calls:
        return "tool_use"
    return "end_turn" if reply.stopped_by is None else "stop_sequence"


def error(refused: Refused) -> dict[str, Any]:
    """The body of an error."""
    return {"type": "error", "error": {"type": refused.kind, "message": str(refused)}, "request_id": None}
