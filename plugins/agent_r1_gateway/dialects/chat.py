"""OpenAI's Chat Completions.

`reasoning_content` of a message carries what the model thought, as other servers of open models have it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agent_r1_gateway.dialects.fields import Effect, Field
from agent_r1_gateway.dialects.shapes import (
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
from agent_r1_gateway.wire import Call, ChatMessage, ChatRequest, Refused, Reply, TokenLogprob, read_arguments

NAME = "chat"
PATHS = ("/v1/chat/completions", "/chat/completions")

_HONOURED = (
    Field("messages", Effect.HONOURED, "text of every role but `function`; images, audio and files are refused"),
    Field("model", Effect.HONOURED, "the recipe says which names are the policy"),
    Field("max_completion_tokens", Effect.HONOURED, "the smaller one where `max_tokens` stands beside it"),
    Field("max_tokens", Effect.HONOURED, "as `max_completion_tokens`"),
    Field("stop", Effect.HONOURED, "one string, or up to four"),
    Field("stream", Effect.HONOURED, "the stream opens when the reply is complete"),
    Field("stream_options", Effect.HONOURED, "`include_usage`; nothing else in it has an effect"),
    Field("logprobs", Effect.HONOURED, "of every sampled token, those of thinking and of calls too"),
    Field("tools", Effect.HONOURED, "functions; custom tools are refused, and `strict` has no effect"),
    Field("tool_choice", Effect.HONOURED, "`auto` and `none`; else refused, since the policy decides what it calls"),
)
_RUN = "the run's sampling decides: training needs the log-probs of what was sampled"
_POLICY = "the policy decides"
_NOTHING = "the gateway offers nothing of the kind"
_SAMPLING = (
    *("temperature", "top_p", "top_k", "min_p", "seed", "logit_bias"),
    *("frequency_penalty", "presence_penalty", "repetition_penalty"),
)
_CHOICES = ("parallel_tool_calls", "reasoning_effort", "verbosity")
_SERVICES = (
    *("metadata", "prediction", "safety_identifier", "service_tier", "store", "user"),
    *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "web_search_options"),
)
_WITHOUT_EFFECT = (
    *(Field(name, Effect.WITHOUT_EFFECT, _RUN) for name in _SAMPLING),
    *(Field(name, Effect.WITHOUT_EFFECT, _POLICY) for name in _CHOICES),
    *(Field(name, Effect.WITHOUT_EFFECT, _NOTHING) for name in _SERVICES),
)
_REFUSED = (
    Field("n", Effect.REFUSED, "a conversation goes on from one reply; ask several times", (1,)),
    Field("top_logprobs", Effect.REFUSED, "only the log-probs of sampled tokens are kept; ask for `logprobs`", (0,)),
    Field("response_format", Effect.REFUSED, "nothing constrains the policy; ask for it in words", ({"type": "text"},)),
    Field("modalities", Effect.REFUSED, "the policy writes text", (["text"],)),
    Field("audio", Effect.REFUSED, "the policy writes text"),
    Field("moderation", Effect.REFUSED, "no moderation model runs here; leave it out"),
    Field("functions", Effect.REFUSED, "`tools` took its place", ([],)),
    Field("function_call", Effect.REFUSED, "`tool_choice` took its place", ("auto", "none")),
)
FIELDS: Mapping[str, Field] = {row.name: row for row in (*_HONOURED, *_WITHOUT_EFFECT, *_REFUSED)}

_READ = ("role", "content", "tool_calls", "reasoning_content", "reasoning", "tool_call_id", "function_call")
_MOST_STOPS = 4
_LOGPROBS_A_CHUNK = 50
_LEAST_LOGPROB = -9999.0
"""As the API writes what is less likely than it can say."""


def read(body: Mapping[str, Any]) -> ChatRequest:
    """What a request means.

    Raises:
        Refused: it asks for what the gateway cannot do, or has the wrong shape.
    """
    body, ignored = opened(body, FIELDS)
    given = messages_of(body, "end with a user's or a tool's message")
    others = set[str]().union(*(unread("messages[]", message, _READ) for _, message in given))
    stop = stops_of(body.get("stop"), "stop")
    if len(stop) > _MOST_STOPS:
        raise Refused(f"stop has {len(stop)} strings; give {_MOST_STOPS} at most", field="stop")
    others |= unread("stream_options", mapping(body.get("stream_options"), "stream_options"), ("include_usage",))
    limits = [count_of(body.get(name), name) for name in ("max_completion_tokens", "max_tokens")]
    return ChatRequest(
        model=string(body.get("model"), "model"),
        messages=tuple(_messages(given)),
        tools=tuple(_tools(body)),
        max_tokens=min((limit for limit in limits if limit is not None), default=None),
        stop=stop,
        stream=flag(body.get("stream"), "stream"),
        logprobs=flag(body.get("logprobs"), "logprobs"),
        ignored=listed(ignored, others),
        body=body,
    )


def _messages(given: list[tuple[str, Mapping[str, Any]]]) -> Iterator[ChatMessage]:
    names: dict[str, str] = {}
    for where, message in given:
        role = string(message.get("role"), f"{where}.role")
        if message.get("content") is None and role != "assistant" and "content" not in message:
            wrong(None, f"{where}.content", "a string or a list of text blocks")
        text = text_of(message.get("content"), f"{where}.content", without=("refusal",) if role == "assistant" else ())
        if role in ("system", "developer"):
            yield ChatMessage("system", text)
        elif role == "user":
            yield ChatMessage("user", text)
        elif role == "assistant":
            calls = tuple(_calls(message, where))
            names.update({call.id: call.name for call in calls if call.id})
            yield ChatMessage("assistant", text, calls, _thinking(message, where))
        elif role == "tool":
            answered = string(message.get("tool_call_id"), f"{where}.tool_call_id")
            yield ChatMessage("tool", text, name=names.get(answered, ""))
        else:
            known = "system, developer, user, assistant or tool"
            raise Refused(f"{where}.role is {role[:60]!r}; the gateway takes {known}", field=f"{where}.role")


def _calls(message: Mapping[str, Any], where: str) -> Iterator[Call]:
    if message.get("function_call") is not None:
        raise Refused(
            f"{where}.function_call is no longer part of the API; send tool_calls", field=f"{where}.function_call"
        )
    for path, call in objects(message.get("tool_calls"), f"{where}.tool_calls"):
        if call.get("type", "function") != "function":
            raise Refused(f"{path} calls no function; the gateway takes calls of functions alone", field=path)
        function = mapping(call.get("function"), f"{path}.function")
        arguments = function.get("arguments")
        if not isinstance(arguments, str | Mapping | None):
            wrong(arguments, f"{path}.function.arguments", "JSON in a string")
        identity = call.get("id") or ""
        if not isinstance(identity, str):
            wrong(identity, f"{path}.id", "a string")
        yield Call(string(function.get("name"), f"{path}.function.name"), read_arguments(arguments), identity)


def _thinking(message: Mapping[str, Any], where: str) -> str:
    name = "reasoning" if message.get("reasoning_content") is None else "reasoning_content"
    thinking = message.get(name)
    if thinking is not None and not isinstance(thinking, str):
        wrong(thinking, f"{where}.{name}", "a string")
    return thinking or ""


def _tools(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The functions that the policy may call."""
    choice = body.get("tool_choice")
    if choice not in (None, "auto", "none"):
        sentence = "tool_choice forces a call, and the policy decides what it calls; send 'auto' or 'none'"
        raise Refused(sentence, field="tool_choice")
    for where, tool in objects(body.get("tools"), "tools"):
        if tool.get("type", "function") != "function":
            raise Refused(f"{where} is no function; the gateway takes tools of the type 'function' alone", field=where)
        function = mapping(tool.get("function"), f"{where}.function")
        name, description, parameters = (function.get(key) for key in ("name", "description", "parameters"))
        read = function_tool(name, description, parameters, f"{where}.function", "parameters")
        if choice != "none":
            yield read


def write(reply: Reply, request: ChatRequest) -> dict[str, Any]:
    """The reply as a chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": _content(reply), "refusal": None}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if reply.calls:
        message["tool_calls"] = [_call(call, _arguments(call)) for call in reply.calls]
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
        for piece in pieces(_arguments(call)):
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


def _arguments(call: Call) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)


def _reason(reply: Reply) -> str:
    if reply.cut:
        return "length"
    return "tool_calls" if reply.calls else "stop"


def _logprobs(tokens: tuple[TokenLogprob, ...]) -> dict[str, Any]:
    content = [
        {
            "token": token.text,
            "logprob": max(_LEAST_LOGPROB, token.logprob),
            "bytes": None if "\ufffd" in token.text else list(token.text.encode()),
            "top_logprobs": [],
        }
        for token in tokens
    ]
    return {"content": content, "refusal": None}


def _usage(reply: Reply) -> dict[str, Any]:
    return {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
    }


def error(refused: Refused) -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"message": str(refused), "type": refused.kind, "param": refused.field, "code": None}}
