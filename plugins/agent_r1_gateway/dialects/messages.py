"""Anthropic's Messages, and the requests that only count tokens.

Adjacent messages of the assistant are one, as in the API. Redacted thinking is dropped: no model of ours wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agent_r1_gateway.dialects.fields import Effect, Field
from agent_r1_gateway.dialects.shapes import (
    block_text,
    count_of,
    flag,
    function_tool,
    listed,
    mapping,
    messages_of,
    objects,
    opened,
    pieces,
    stops_of,
    string,
    text_of,
    unread,
    wrong,
)
from agent_r1_gateway.wire import Call, ChatMessage, ChatRequest, Refused, Reply, read_arguments

NAME = "messages"
PATHS = ("/v1/messages", "/messages")

_HONOURED = (
    Field("messages", Effect.HONOURED, "text, calls, results and thinking; images and documents are refused"),
    Field("model", Effect.HONOURED, "the recipe says which names are the policy"),
    Field(
        "system",
        Effect.HONOURED,
        "but for a block that begins with `x-anthropic-billing-header:`: it changes in every request",
    ),
    Field("max_tokens", Effect.HONOURED, "thinking counts"),
    Field("stop_sequences", Effect.HONOURED, "any number of them"),
    Field("stream", Effect.HONOURED, "the stream opens when the reply is complete"),
    Field("tools", Effect.HONOURED, "those with `input_schema`; tools that the API itself runs have no effect"),
    Field("tool_choice", Effect.HONOURED, "`auto` and `none`; else refused, since the policy decides what it calls"),
)
_RUN = "the run's sampling decides: training needs the log-probs of what was sampled"
_POLICY = "the policy decides"
_NOTHING = "the gateway offers nothing of the kind"
_SAMPLING = ("temperature", "top_k", "top_p")
_CHOICES = ("thinking", "output_config", "output_format")
_SERVICES = (
    *("betas", "billing_policy", "cache_control", "container", "context_management", "diagnostics"),
    *("fallback_credit_token", "fallbacks", "inference_geo", "mcp_servers", "metadata", "service_tier", "speed"),
    *("user_profile_id", "workspace_id"),
)
_WITHOUT_EFFECT = (
    *(Field(name, Effect.WITHOUT_EFFECT, _RUN) for name in _SAMPLING),
    *(Field(name, Effect.WITHOUT_EFFECT, _POLICY) for name in _CHOICES),
    *(Field(name, Effect.WITHOUT_EFFECT, _NOTHING) for name in _SERVICES),
)
_REFUSED = (
    Field("compaction", Effect.REFUSED, "its reply is no message; ask for a summary in words"),
    Field("thread", Effect.REFUSED, "the gateway keeps no conversation; send all messages"),
)
FIELDS: Mapping[str, Field] = {row.name: row for row in (*_HONOURED, *_WITHOUT_EFFECT, *_REFUSED)}

SIGNATURE = "YWdlbnQtcjE="
"""Of every thinking block. The API signs what its model thought; here nobody checks it."""
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
        wrong(None, "max_tokens", "a whole number")
    return request


def count(body: Mapping[str, Any]) -> ChatRequest:
    """What a request means that asks for the number of its tokens alone.

    Raises:
        Refused: as `read`; but `max_tokens` may be missing, and the assistant may speak last.
    """
    return _request(body, prefill="")


def _request(body: Mapping[str, Any], prefill: str) -> ChatRequest:
    body, ignored = opened(body, FIELDS)
    given = messages_of(body, prefill)
    tools, dropped = _tools(body)
    others = dropped.union(*(unread("messages[]", message, ("role", "content")) for _, message in given))
    return ChatRequest(
        model=string(body.get("model"), "model"),
        messages=(*_system(body), *_joined(_messages(given))),
        tools=tools,
        max_tokens=count_of(body.get("max_tokens"), "max_tokens"),
        stop=stops_of(body.get("stop_sequences"), "stop_sequences"),
        stream=flag(body.get("stream"), "stream"),
        ignored=listed(ignored, others),
        body=body,
    )


def _system(body: Mapping[str, Any]) -> Iterator[ChatMessage]:
    given = body.get("system")
    if isinstance(given, list):
        given = [block for block in given if not _for_billing(block)]
    text = text_of(given, "system")
    if text:
        yield ChatMessage("system", text)


def _for_billing(block: Any) -> bool:
    return isinstance(block, Mapping) and str(block.get("text")).startswith(_BILLING)


def _messages(given: list[tuple[str, Mapping[str, Any]]]) -> Iterator[ChatMessage]:
    names: dict[str, str] = {}
    for place, message in given:
        role, content, where = string(message.get("role"), f"{place}.role"), message.get("content"), f"{place}.content"
        if not isinstance(content, str | list):
            wrong(content, where, "a string or a list of blocks")
        if role == "system":
            yield ChatMessage("system", text_of(content, where))
        elif role == "assistant":
            yield _assistant(content, where, names)
        elif role == "user":
            yield from _user(content, where, names)
        else:
            known = "user, assistant or system"
            raise Refused(f"{place}.role is {role[:60]!r}; the gateway takes {known}", field=f"{place}.role")


def _assistant(content: str | list[Any], where: str, names: dict[str, str]) -> ChatMessage:
    if isinstance(content, str):
        return ChatMessage("assistant", content)
    text, thinking, calls = "", "", list[Call]()
    for path, block in objects(content, where):
        kind = block.get("type")
        if kind == "thinking":
            thought = block.get("thinking")
            thinking += thought if isinstance(thought, str) else wrong(thought, f"{path}.thinking", "a string")
        elif kind == "tool_use":
            calls.append(_call(block, path))
            names[calls[-1].id] = calls[-1].name
        elif kind != "redacted_thinking":
            text += block_text(block, path)
    return ChatMessage("assistant", text, tuple(calls), thinking)


def _call(block: Mapping[str, Any], where: str) -> Call:
    given = block.get("input")
    if not isinstance(given, str | Mapping):
        wrong(given, f"{where}.input", "an object")
    return Call(
        string(block.get("name"), f"{where}.name"), read_arguments(given), string(block.get("id"), f"{where}.id")
    )


def _user(content: str | list[Any], where: str, names: Mapping[str, str]) -> Iterator[ChatMessage]:
    """The results of calls and the texts, in their order."""
    blocks = [(where, {"type": "text", "text": content})] if isinstance(content, str) else objects(content, where)
    text, answers = "", 0
    for path, block in blocks:
        if block.get("type") != "tool_result":
            text += block_text(block, path)
            continue
        if text:
            yield ChatMessage("user", text)
        answered = string(block.get("tool_use_id"), f"{path}.tool_use_id")
        result = text_of(block.get("content"), f"{path}.content")
        if not result and flag(block.get("is_error"), f"{path}.is_error"):
            result = "error"
        yield ChatMessage("tool", result, name=names.get(answered, ""))
        text, answers = "", answers + 1
    if text or not answers:
        yield ChatMessage("user", text)


def _joined(messages: Iterator[ChatMessage]) -> list[ChatMessage]:
    """The messages, adjacent ones of the assistant as one."""
    joined: list[ChatMessage] = []
    for one in messages:
        if joined and joined[-1].role == one.role == "assistant":
            last = joined.pop()
            one = ChatMessage("assistant", last.text + one.text, last.calls + one.calls, last.thinking + one.thinking)
        joined.append(one)
    return joined


def _tools(body: Mapping[str, Any]) -> tuple[tuple[dict[str, Any], ...], set[str]]:
    """The tools that the policy may call, and those that have no effect."""
    kind = (mapping(body.get("tool_choice"), "tool_choice") or {"type": "auto"}).get("type")
    if kind not in ("auto", "none"):
        sentence = "tool_choice forces a call, and the policy decides what it calls; send the type 'auto' or 'none'"
        raise Refused(sentence, field="tool_choice")
    tools, dropped = list[dict[str, Any]](), set[str]()
    for where, tool in objects(body.get("tools"), "tools"):
        sort, schema = tool.get("type"), tool.get("input_schema")
        if schema is None and isinstance(sort, str) and sort.startswith(_SERVER_TOOLS):
            dropped.add(f"tools[{sort[:60]}]")
            continue
        if schema is None:
            sentence = (
                f"{where}.input_schema is missing, and the policy knows no tool by its type; describe what it takes"
            )
            raise Refused(sentence, field=f"{where}.input_schema")
        tools.append(function_tool(tool.get("name"), tool.get("description"), schema, where, "input_schema"))
    return (() if kind == "none" else tuple(tools)), dropped


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
