"""Conversations as programs keep them, in each of the three APIs: lists of messages that grow, fork and are edited."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agent_r1_gateway_kit.http_client import Answer, Pending

Send = Callable[[str, Any, Mapping[str, str] | None], Pending]


@dataclass(frozen=True)
class Reply:
    """What the model answered."""

    action: int
    """The action of the script that it is."""
    text: str
    calls: list[dict[str, Any]]
    """Each with `id`, `name` and `arguments`, an object."""
    thinking: str
    cut: bool
    tokens: tuple[int, int]
    """Of the prompt and of the reply, as the API counts them."""
    items: list[dict[str, Any]]
    """What a program keeps of it."""
    raw: dict[str, Any]


@dataclass
class Talk(ABC):
    """One conversation."""

    send_body: Send
    policy: Sequence[Mapping[str, Any]]
    system: str
    tools: Sequence[str]
    fields: dict[str, Any]
    items: list[dict[str, Any]] = field(default_factory=list)
    PATH: ClassVar[str]

    def user(self, text: str) -> Talk:
        """The user says something."""
        self.items.append({"role": "user", "content": text})
        return self

    def said(self, text: str) -> Talk:
        """The program claims that the model said this."""
        self.items.append({"role": "assistant", "content": text})
        return self

    @abstractmethod
    def results(self, reply: Reply, *texts: str) -> Talk:
        """The results of the calls of a reply."""

    @abstractmethod
    def body(self, **fields: Any) -> dict[str, Any]:
        """The request; fields are `max_tokens`, `stop`, `stream`, or those of the API."""

    @abstractmethod
    def _read(self, raw: dict[str, Any]) -> dict[str, Any]:
        """The fields of a Reply that its JSON has."""

    @abstractmethod
    def _whole(self, events: Iterator[dict[str, Any]]) -> dict[str, Any]:
        """The JSON of a reply that came as a stream."""

    def fork(self) -> Talk:
        """A copy with a future of its own."""
        return type(self)(self.send_body, self.policy, self.system, self.tools, dict(self.fields), deepcopy(self.items))

    def send(self, headers: Mapping[str, str] | None = None, **fields: Any) -> Pending:
        """Send the conversation, and read no answer yet."""
        return self.send_body(self.PATH, self.body(**fields), headers)

    def ask(self, text: str | None = None, headers: Mapping[str, str] | None = None, **fields: Any) -> Reply:
        """Ask for the next reply, and keep it; `text` is what the user says before."""
        if text is not None:
            self.user(text)
        return self.keep(self.send(headers, **fields).read())

    def keep(self, answer: Answer) -> Reply:
        """Read an answer as a reply, and keep it as the API's own client does."""
        reply = self.read(answer)
        self.items += deepcopy(reply.items)
        return reply

    def read(self, answer: Answer) -> Reply:
        """Read an answer as a reply."""
        assert answer.status == 200, f"the gateway answers {answer.status}: {answer.text[:500]}"
        streamed = answer.text.startswith(("data:", "event:"))
        raw = self._whole(_events(answer.text)) if streamed else answer.json
        read = self._read(raw)
        return Reply(action=self._action(read["text"], read["calls"]), raw=raw, **read)

    def _action(self, text: str, calls: Sequence[Mapping[str, Any]]) -> int:
        """The action of the script: texts begin with a word of their own, and calls have arguments of their own."""
        called, first = [(call["name"], call["arguments"]) for call in calls], text.split(" ")[0]
        for number, one in enumerate(self.policy):
            wanted = [(call["name"], call["arguments"]) for call in one.get("calls", ())]
            word = one["say"].split(" ")[0]
            said = first and (first == word or (first == text and word.startswith(text)))
            if (called and called == wanted) or said:
                return number
        raise AssertionError(f"the script has no action that reads {text[:200]!r} with the calls {called}")


class Chat(Talk):
    """OpenAI Chat Completions."""

    PATH = "/chat/completions"

    def results(self, reply: Reply, *texts: str) -> Talk:
        for call, text in zip(reply.calls, texts, strict=True):
            self.items.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        return self

    def body(self, **fields: Any) -> dict[str, Any]:
        system = [{"role": "system", "content": self.system}] if self.system else []
        tools = [{"type": "function", "function": {"name": name, "parameters": _ANY}} for name in self.tools]
        options = {"stream_options": {"include_usage": True}} if fields.get("stream") else {}
        own = {"tools": tools} if tools else {}
        return {"messages": system + self.items, **own, **options, **self.fields, **fields}

    def _read(self, raw: dict[str, Any]) -> dict[str, Any]:
        (choice,) = raw["choices"]
        message = choice["message"]
        return {
            "text": message.get("content") or "",
            "calls": [
                {
                    "id": call["id"],
                    "name": call["function"]["name"],
                    "arguments": json.loads(call["function"]["arguments"]),
                }
                for call in message.get("tool_calls") or ()
            ],
            "thinking": message.get("reasoning_content") or message.get("reasoning") or "",
            "cut": choice["finish_reason"] == "length",
            "tokens": (raw["usage"]["prompt_tokens"], raw["usage"]["completion_tokens"]),
            "items": [message],
        }

    def _whole(self, events: Iterator[dict[str, Any]]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        calls: dict[int, dict[str, Any]] = {}
        reason, usage = None, None
        for event in events:
            usage = event.get("usage") or usage
            for choice in event["choices"]:
                reason, delta = choice.get("finish_reason") or reason, choice["delta"]
                for name in ("content", "reasoning_content"):
                    message[name] = (message.get(name) or "") + (delta.get(name) or "")
                for piece in delta.get("tool_calls") or ():
                    empty = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
                    call = calls.setdefault(piece["index"], empty)
                    call["id"] += piece.get("id") or ""
                    for name, value in (piece.get("function") or {}).items():
                        call["function"][name] += value or ""
        if calls:
            message["tool_calls"] = list(calls.values())
        if not message["reasoning_content"]:
            del message["reasoning_content"]
        return {"choices": [{"message": message, "finish_reason": reason}], "usage": usage}


class Messages(Talk):
    """Anthropic's Messages."""

    PATH = "/v1/messages"

    def results(self, reply: Reply, *texts: str) -> Talk:
        blocks = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": text}
            for call, text in zip(reply.calls, texts, strict=True)
        ]
        self.items.append({"role": "user", "content": blocks})
        return self

    def body(self, **fields: Any) -> dict[str, Any]:
        if "stop" in fields:
            fields["stop_sequences"] = fields.pop("stop")
        tools = [{"name": name, "input_schema": _ANY} for name in self.tools]
        own = {name: value for name, value in (("system", self.system), ("tools", tools)) if value}
        return {"max_tokens": 2000, "messages": self.items, **own, **self.fields, **fields}

    def _read(self, raw: dict[str, Any]) -> dict[str, Any]:
        blocks = raw["content"]
        return {
            "text": "".join(block["text"] for block in blocks if block["type"] == "text"),
            "calls": [
                {"id": block["id"], "name": block["name"], "arguments": block["input"]}
                for block in blocks
                if block["type"] == "tool_use"
            ],
            "thinking": "".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
            "cut": raw["stop_reason"] == "max_tokens",
            "tokens": (raw["usage"]["input_tokens"], raw["usage"]["output_tokens"]),
            "items": [{"role": "assistant", "content": blocks}],
        }

    def _whole(self, events: Iterator[dict[str, Any]]) -> dict[str, Any]:
        whole: dict[str, Any] = {}
        for event in events:
            if event["type"] == "message_start":
                whole = event["message"] | {"content": []}
            elif event["type"] == "content_block_start":
                whole["content"].append(event["content_block"] | {"json": ""})
            elif event["type"] == "content_block_delta":
                block, delta = whole["content"][event["index"]], event["delta"]
                for name in ("text", "thinking", "signature"):
                    if name in delta:
                        block[name] += delta[name]
                block["json"] += delta.get("partial_json", "")
            elif event["type"] == "content_block_stop":
                block = whole["content"][event["index"]]
                written = block.pop("json")
                if block["type"] == "tool_use":
                    block["input"] = json.loads(written or "{}")
            elif event["type"] == "message_delta":
                whole |= event["delta"]
                whole["usage"] = whole["usage"] | event["usage"]
        return whole


class Responses(Talk):
    """OpenAI's Responses, without anything stored."""

    PATH = "/responses"

    def results(self, reply: Reply, *texts: str) -> Talk:
        for call, text in zip(reply.calls, texts, strict=True):
            self.items.append({"type": "function_call_output", "call_id": call["id"], "output": text})
        return self

    def body(self, **fields: Any) -> dict[str, Any]:
        if "max_tokens" in fields:
            fields["max_output_tokens"] = fields.pop("max_tokens")
        tools = [{"type": "function", "name": name, "parameters": _ANY, "strict": False} for name in self.tools]
        own = {name: value for name, value in (("instructions", self.system), ("tools", tools)) if value}
        return {"input": self.items, "store": False, **own, **self.fields, **fields}

    def _read(self, raw: dict[str, Any]) -> dict[str, Any]:
        output = raw["output"]
        parts = [part for item in output if item["type"] == "message" for part in item["content"]]
        thoughts = [part for item in output if item["type"] == "reasoning" for part in item["summary"]]
        return {
            "text": "".join(part["text"] for part in parts),
            "calls": [
                {"id": item["call_id"], "name": item["name"], "arguments": json.loads(item["arguments"])}
                for item in output
                if item["type"] == "function_call"
            ],
            "thinking": "".join(part["text"] for part in thoughts),
            "cut": raw["status"] == "incomplete",
            "tokens": (raw["usage"]["input_tokens"], raw["usage"]["output_tokens"]),
            "items": output,
        }

    def _whole(self, events: Iterator[dict[str, Any]]) -> dict[str, Any]:
        last = ("response.completed", "response.incomplete")
        return next(dict(event["response"]) for event in events if event["type"] in last)


TALKS: Mapping[str, type[Talk]] = {"chat": Chat, "messages": Messages, "responses": Responses}
_ANY = {"type": "object", "properties": {}, "additionalProperties": True}


def _events(text: str) -> Iterator[dict[str, Any]]:
    """The data of server-sent events."""
    for line in text.split("\n"):
        data = line.removeprefix("data:").strip()
        if line.startswith("data:") and data != "[DONE]":
            yield json.loads(data)
