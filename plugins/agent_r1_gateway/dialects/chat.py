"""OpenAI's Chat Completions.

`reasoning_content` of a message carries what the model thought, as other servers of open models have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent_r1_gateway.dialects.fields import fields
from agent_r1_gateway.dialects.shapes import (
    PLAIN,
    Given,
    calls_allowed,
    conversation,
    function_tool,
    listed,
    messages_of,
    opened,
    pieces,
)
from agent_r1_gateway.dialects.shapes import openai_error as error
from agent_r1_gateway.wire import Call, ChatMessage, ChatRequest, Reply, TokenLogprob, read_arguments

__all__ = ["FIELDS", "NAME", "PATHS", "error", "events", "read", "write"]

NAME = "chat"
PATHS = ("/v1/chat/completions", "/chat/completions")

FIELDS = fields(
    honoured={
        "messages": "text of every role but `function`; images, audio and files are refused",
        "model": "the recipe says which names are the policy",
        "max_completion_tokens": "the smaller one where `max_tokens` stands beside it",
        "max_tokens": "as `max_completion_tokens`",
        "stop": "one string, or up to four",
        "stream": "the stream opens when the reply is complete",
        "stream_options": "`include_usage`; nothing else in it has an effect",
        "logprobs": "of every sampled token, those of thinking and of calls too; null for a demonstration",
        "tools": "functions; custom tools are refused, and `strict` has no effect",
        "tool_choice": "`auto` and `none`; else refused, since the policy decides what it calls",
    },
    refused={
        "n": ("a conversation goes on from one reply; ask several times", 1),
        "top_logprobs": ("only the log-probs of sampled tokens are kept; ask for `logprobs`", 0),
        "response_format": ("nothing constrains the policy; ask for it in words", {"type": "text"}),
        "modalities": ("the policy writes text", ["text"]),
        "audio": ("the policy writes text",),
        "moderation": ("no moderation model runs here; leave it out",),
        "functions": ("`tools` took its place", []),
        "function_call": ("`tool_choice` took its place", "auto", "none"),
    },
    ignored="""
        temperature top_p top_k min_p seed logit_bias frequency_penalty presence_penalty repetition_penalty
        parallel_tool_calls reasoning_effort verbosity metadata prediction safety_identifier service_tier store user
        prompt_cache_key prompt_cache_options prompt_cache_retention web_search_options
    """,
)

_READ = ("role", "content", "tool_calls", "reasoning_content", "reasoning", "tool_call_id", "function_call")
_MOST_STOPS = 4
_LOGPROBS_A_CHUNK = 50
_CONTENT = {**PLAIN, "refusal": None}
"""Of the assistant's messages; what it refused is left out."""


def read(body: Mapping[str, Any]) -> ChatRequest:
    """What a request means.

    Raises:
        Refused: it asks for what the gateway cannot do, or has the wrong shape.
    """
    given, ignored = opened(body, FIELDS)
    messages = messages_of(given, "end with a user's or a tool's message")
    others = given["stream_options"].unread("include_usage").union(*(one.unread(*_READ) for one in messages))
    stop = given["stop"].strings()
    if len(stop) > _MOST_STOPS:
        given["stop"].refuse(f"has {len(stop)} strings; give {_MOST_STOPS} at most")
    limits = [given[name].count() for name in ("max_completion_tokens", "max_tokens")]
    return ChatRequest(
        model=given["model"].string(),
        messages=conversation(map(_message, messages), lambda last, one: False),
        tools=tuple(_tools(given)),
        max_tokens=min((limit for limit in limits if limit is not None), default=None),
        stop=stop,
        stream=given["stream"].flag(),
        logprobs=given["logprobs"].flag(),
        ignored=listed(ignored, others),
        body=given.value,
    )


def _message(given: Given) -> ChatMessage:
    role, content = given["role"].string(), given["content"]
    if role == "assistant":
        return ChatMessage("assistant", content.joined(_CONTENT), tuple(_calls(given)), _thinking(given))
    if "content" not in given.object():
        content.wrong("a string or a list of text blocks")
    said = content.joined(PLAIN)
    if role == "tool":
        return ChatMessage("tool", said, name=given["tool_call_id"].string())
    if role not in ("system", "developer", "user"):
        given["role"].refuse(f"is {role[:60]!r}; the gateway takes system, developer, user, assistant or tool")
    return ChatMessage("user" if role == "user" else "system", said)


def _calls(message: Given) -> Iterator[Call]:
    if message["function_call"].value is not None:
        message["function_call"].refuse("is no longer part of the API; send tool_calls")
    for call in message["tool_calls"]:
        if call.object().get("type", "function") != "function":
            call.refuse("calls no function; the gateway takes calls of functions alone")
        name, arguments = call["function"]["name"].string(), call["function"]["arguments"]
        if not isinstance(arguments.value, str | Mapping | None):
            arguments.wrong("JSON in a string")
        yield Call(name, read_arguments(arguments.value), call["id"].text())


def _thinking(message: Given) -> str:
    named = message["reasoning_content"]
    return (message["reasoning"] if named.value is None else named).text()


def _tools(given: Given) -> Iterator[dict[str, Any]]:
    """The functions that the policy may call."""
    allowed = calls_allowed(given["tool_choice"].value)
    for tool in given["tools"]:
        if tool.object().get("type", "function") != "function":
            tool.refuse("is no function; the gateway takes tools of the type 'function' alone")
        read = function_tool(tool["function"])
        if allowed:
            yield read


def write(reply: Reply, request: ChatRequest) -> dict[str, Any]:
    """The reply as a chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": _content(reply), "refusal": None}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if reply.calls:
        message["tool_calls"] = [_call(call, call.as_text) for call in reply.calls]
    tokens = reply.logprobs if request.logprobs else ()
    logprobs = _logprobs(tokens) if tokens else None
    choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": _reason(reply)}
    return _head(reply, request, "chat.completion") | {"choices": [choice], "usage": _usage(reply)}


def events(reply: Reply, request: ChatRequest) -> list[tuple[str | None, dict[str, Any] | str]]:
    """The reply as chunks of a chat completion."""
    head = _head(reply, request, "chat.completion.chunk")
    usage = (request.body.get("stream_options") or {}).get("include_usage") is True
    if usage:
        head["usage"] = None
    chunks = [head | {"choices": [choice]} for choice in _choices(reply, request)]
    if usage:
        chunks.append(head | {"choices": [], "usage": _usage(reply)})
    return [*((None, chunk) for chunk in chunks), (None, "[DONE]")]


def _choices(reply: Reply, request: ChatRequest) -> Iterator[dict[str, Any]]:
    rest: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": None}
    yield rest | {"delta": {"role": "assistant", "content": _content(reply) and "", "refusal": None}}
    for piece in pieces(reply.thinking):
        yield rest | {"delta": {"reasoning_content": piece}}
    for piece in pieces(reply.text):
        yield rest | {"delta": {"content": piece}}
    for index, call in enumerate(reply.calls):
        yield rest | {"delta": {"tool_calls": [{"index": index, **_call(call, "")}]}}
        for piece in pieces(call.as_text):
            yield rest | {"delta": {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}}
    tokens = reply.logprobs if request.logprobs else ()
    for at in range(0, len(tokens), _LOGPROBS_A_CHUNK):
        yield rest | {"delta": {}, "logprobs": _logprobs(tokens[at : at + _LOGPROBS_A_CHUNK])}
    yield rest | {"delta": {}, "finish_reason": _reason(reply)}


def _head(reply: Reply, request: ChatRequest, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{reply.id}", "object": kind, "created": reply.created, "model": request.model}


def _content(reply: Reply) -> str | None:
    return reply.text if reply.text or not reply.calls else None


def _call(call: Call, arguments: str) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _reason(reply: Reply) -> str:
    if reply.cut:
        return "length"
    return "tool_calls" if reply.calls else "stop"


def _logprobs(tokens: tuple[TokenLogprob, ...]) -> dict[str, Any]:
    """The API has no bytes where a token is a part of a character."""
    unspelled = {"bytes": None}
    content = [token.as_json() | (unspelled if "\ufffd" in token.text else {}) for token in tokens]
    return {"content": content, "refusal": None}


def _usage(reply: Reply) -> dict[str, Any]:
    return {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
    }
