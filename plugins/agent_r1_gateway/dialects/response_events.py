"""Replies in OpenAI's Responses API: the response as an object, and as the events of a stream."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from agent_r1_gateway.dialects.response_tools import Tool, tools_by_name
from agent_r1_gateway.wire import Call, ChatRequest, Reply

SEALED = "agent-r1:"
"""Begins an `encrypted_content` that the gateway wrote; base64 of the reasoning follows."""
RAW = "ctcraw_"
"""Begins the id of a custom tool's call whose arguments are not one text: its input is those arguments as written."""

_REPEATED = (
    *("instructions", "max_output_tokens", "metadata", "prompt_cache_key"),
    *("previous_response_id", "safety_identifier", "text", "truncation", "user"),
)

Event = tuple[str | None, dict[str, Any] | str]


def write(reply: Reply, request: ChatRequest) -> dict[str, Any]:
    """The reply as the API's JSON."""
    usage = {
        "input_tokens": reply.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": reply.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": reply.thinking_tokens},
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
    }
    status = "incomplete" if reply.cut else "completed"
    cut = {"reason": "max_output_tokens"} if reply.cut else None
    return _response(reply, request, status) | {
        "incomplete_details": cut,
        "output": _output(reply, request),
        "usage": usage,
    }


def events(reply: Reply, request: ChatRequest) -> list[Event]:
    """The reply as the API's stream: (name of the event, data) in order."""
    whole = write(reply, request)
    begun = _response(reply, request, "in_progress")
    told: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(whole["output"]):
        place = {"output_index": index}
        told.append({"type": "response.output_item.added", **place, "item": _begun(item)})
        told += [event | place | {"item_id": item["id"]} for event in _item_events(item)]
        told.append({"type": "response.output_item.done", **place, "item": item})
    told.append({"type": f"response.{whole['status']}", "response": whole})
    return [(event["type"], event | {"sequence_number": number}) for number, event in enumerate(told)]


def _response(reply: Reply, request: ChatRequest, status: str) -> dict[str, Any]:
    body = request.body
    return {name: body[name] for name in _REPEATED if body.get(name) is not None} | {
        "id": f"resp_{reply.id}",
        "object": "response",
        "created_at": reply.created,
        "status": status,
        "model": request.model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": list(body.get("tools") or ()),
        "usage": None,
    }


def _output(reply: Reply, request: ChatRequest) -> list[dict[str, Any]]:
    """Reasoning, text, calls. A reply that says nothing has an empty text, so that a client has something to keep."""
    items: list[dict[str, Any]] = []
    if reply.thinking:
        summary = [{"type": "summary_text", "text": reply.thinking}]
        sealed = None
        if "reasoning.encrypted_content" in (request.body.get("include") or ()):
            sealed = SEALED + base64.b64encode(reply.thinking.encode("utf-8", "replace")).decode()
        items.append({"type": "reasoning", "id": f"rs_{reply.id}", "summary": summary, "encrypted_content": sealed})
    if reply.text or not reply.calls:
        logprobs = [token.as_json() for token in reply.logprobs]  # those of reasoning and calls, too
        part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": logprobs}
        status = "incomplete" if reply.cut and not reply.calls else "completed"
        message = {"type": "message", "id": f"msg_{reply.id}", "role": "assistant", "status": status}
        items.append(message | {"content": [part]})
    tools = tools_by_name(request.body)
    for number, call in enumerate(reply.calls):
        items.append(_call(call, tools.get(call.name, Tool(call.name)), f"{reply.id}_{number}"))
    return items


def _call(call: Call, tool: Tool, mark: str) -> dict[str, Any]:
    """A call by the name that the client gave the tool."""
    named: dict[str, Any] = {"name": tool.name, "call_id": call.id}
    if tool.namespace is not None:
        named["namespace"] = tool.namespace
    written = call.as_text
    if not tool.custom:
        return {"type": "function_call", "id": f"fc_{mark}", "arguments": written, "status": "completed"} | named
    begins, given = RAW, {} if isinstance(call.arguments, str) else call.arguments
    if list(given) == ["input"] and isinstance(given["input"], str):
        begins, written = "ctc_", given["input"]
    return {"type": "custom_tool_call", "id": f"{begins}{mark}", "input": written} | named


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    """The item before its content."""
    empty: dict[str, dict[str, Any]] = {
        "reasoning": {"summary": []},
        "message": {"content": [], "status": "in_progress"},
        "function_call": {"arguments": "", "status": "in_progress"},
        "custom_tool_call": {"input": ""},
    }
    return item | empty[item["type"]]


def _item_events(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What happens between the item's beginning and its end; its whole content is one delta."""
    kind = item["type"]
    if kind == "reasoning":
        for index, part in enumerate(item["summary"]):
            event, at = "response.reasoning_summary", {"summary_index": index}
            yield {"type": f"{event}_part.added", **at, "part": part | {"text": ""}}
            yield {"type": f"{event}_text.delta", **at, "delta": part["text"]}
            yield {"type": f"{event}_text.done", **at, "text": part["text"]}
            yield {"type": f"{event}_part.done", **at, "part": part}
    elif kind == "message":
        for index, part in enumerate(item["content"]):
            at, named = {"content_index": index}, ("token", "logprob", "top_logprobs")
            logprobs = {"logprobs": [{name: token[name] for name in named} for token in part["logprobs"]]}
            yield {"type": "response.content_part.added", **at, "part": part | {"text": "", "logprobs": []}}
            if part["text"]:
                yield {"type": "response.output_text.delta", **at, "delta": part["text"], **logprobs}
            yield {"type": "response.output_text.done", **at, "text": part["text"], **logprobs}
            yield {"type": "response.content_part.done", **at, "part": part}
    else:
        name, event = {
            "function_call": ("arguments", "response.function_call_arguments"),
            "custom_tool_call": ("input", "response.custom_tool_call_input"),
        }[kind]
        yield {"type": f"{event}.delta", "delta": item[name]}
        yield {"type": f"{event}.done", name: item[name]}
