"""OpenAI's Responses API, as the SDK's `responses.create` and Codex speak it.

Nothing is stored: each request sends the whole conversation. Reasoning goes out as a summary and, where the request
includes it, once more as `encrypted_content`, which clients return unread; it is encoded there, not encrypted.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_r1_gateway.dialects.fields import Effect, Field
from agent_r1_gateway.dialects.response_events import RAW, SEALED, events, write
from agent_r1_gateway.dialects.response_tools import Tool, read_tools
from agent_r1_gateway.dialects.shapes import count_of, flag, listed, mapping, objects, opened, string, unread, wrong
from agent_r1_gateway.wire import Call, ChatMessage, ChatRequest, Refused, Role, read_arguments

__all__ = ["FIELDS", "NAME", "PATHS", "error", "events", "read", "write"]

NAME = "responses"
PATHS = ("/v1/responses", "/responses")

_SAMPLING = "the run decides how tokens are sampled"
_NOT_STORED = "nothing is stored here; send the whole conversation in input"
_ANSWERED = "each request is answered; leave out those that only warm a cache"
_LOGPROBS = "message.output_text.logprobs"

_ROWS = (
    Field("model", Effect.HONOURED, "names the policy, or another model of the recipe"),
    Field("input", Effect.HONOURED, "text, calls, their outputs and reasoning; no images, files or references"),
    Field("instructions", Effect.HONOURED, "the first system message"),
    Field(
        "tools",
        Effect.HONOURED,
        "functions, custom tools, namespaces; web_search and tool_search have no effect",
    ),
    Field("tool_choice", Effect.HONOURED, "auto and none; others are refused"),
    Field("max_output_tokens", Effect.HONOURED, "most tokens of the reply, reasoning included"),
    Field("stream", Effect.HONOURED, "events follow once the reply is complete"),
    Field("include", Effect.HONOURED, "reasoning.encrypted_content, message.output_text.logprobs; others add nothing"),
    Field("text", Effect.HONOURED, "the format text; others are refused, verbosity has no effect"),
    Field("store", Effect.HONOURED, "nothing is stored, as false asks; true has no effect"),
    Field("prompt_cache_options", Effect.HONOURED, "prewarm is refused, the rest has no effect"),
    Field("previous_response_id", Effect.REFUSED, _NOT_STORED),
    Field("conversation", Effect.REFUSED, _NOT_STORED),
    Field("prompt", Effect.REFUSED, "no prompts are stored here; send the text itself"),
    Field("background", Effect.REFUSED, "replies are not stored; wait for them", (False,)),
    Field("generate", Effect.REFUSED, _ANSWERED, (True,)),
    Field("top_logprobs", Effect.REFUSED, "log-probs of the sampled tokens alone are known", (0,)),
    Field("moderation", Effect.REFUSED, "no moderation model runs here; leave it out"),
    Field("temperature", Effect.WITHOUT_EFFECT, _SAMPLING),
    Field("top_p", Effect.WITHOUT_EFFECT, _SAMPLING),
    Field("reasoning", Effect.WITHOUT_EFFECT, "the policy reasons as it was trained; its reasoning is shown in full"),
    Field("parallel_tool_calls", Effect.WITHOUT_EFFECT, "the policy decides how many calls it makes"),
    Field("max_tool_calls", Effect.WITHOUT_EFFECT, "counts hosted tools, of which there are none"),
    Field("truncation", Effect.WITHOUT_EFFECT, "the input is never cut"),
    Field("context_management", Effect.WITHOUT_EFFECT, "the input is never shortened"),
    Field("metadata", Effect.WITHOUT_EFFECT, "repeated in the reply"),
    Field("client_metadata", Effect.WITHOUT_EFFECT, "sent by Codex"),
    Field("user", Effect.WITHOUT_EFFECT, "repeated in the reply"),
    Field("safety_identifier", Effect.WITHOUT_EFFECT, "repeated in the reply"),
    Field("prompt_cache_key", Effect.WITHOUT_EFFECT, "repeated in the reply"),
    Field("prompt_cache_retention", Effect.WITHOUT_EFFECT, "the engine caches prompts by itself"),
    Field("service_tier", Effect.WITHOUT_EFFECT, "there is one"),
    Field("stream_options", Effect.WITHOUT_EFFECT, "events carry no padding"),
    Field("background_options", Effect.WITHOUT_EFFECT, "nothing runs in the background"),
    Field("image", Effect.WITHOUT_EFFECT, "there are no images"),
    Field("access_programs", Effect.WITHOUT_EFFECT, "there are none"),
)
FIELDS: Mapping[str, Field] = {row.name: row for row in _ROWS}

_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_TEXTS = "a string or a list of text parts"
_TEXT_IN = {
    **dict.fromkeys(("input_text", "output_text", "text", "summary_text", "reasoning_text"), "text"),
    **{kind: kind for kind in ("refusal", "encrypted_content")},
}
"""By the type of a part, the field with its text. Codex passes on as encrypted what the policy tells a sub-agent."""


def read(body: Mapping[str, Any]) -> ChatRequest:
    """What a request means.

    Raises:
        Refused: it has a wrong shape, or asks for what the gateway cannot do.
    """
    body, ignored = opened(body, FIELDS)
    tools, without_effect = read_tools(body)
    ignored += [*_check_values(body), *without_effect]
    return ChatRequest(
        model=string(body.get("model"), "model"),
        messages=_messages(body),
        tools=tools if body.get("tool_choice") != "none" else (),
        max_tokens=count_of(body.get("max_output_tokens"), "max_output_tokens"),
        stream=flag(body.get("stream"), "stream"),
        logprobs=_LOGPROBS in (body.get("include") or ()),
        ignored=listed(ignored, ()),
        body=body,
    )


def error(refused: Refused) -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"message": str(refused), "type": refused.kind, "param": refused.field, "code": None}}


def _check_values(body: Mapping[str, Any]) -> list[str]:
    """Refuse what honoured fields may not ask for; list what they ask for without effect."""
    ignored = ["store"] if flag(body.get("store"), "store") else []
    include = body.get("include")
    if include is not None and not isinstance(include, list):
        wrong(include, "include", "a list of strings")
    if body.get("tool_choice") not in (None, "auto", "none"):
        raise Refused("the gateway cannot force a call; set tool_choice to auto or none", field="tool_choice")
    text = mapping(body.get("text"), "text")
    form = text.get("format")
    if form is not None and not (isinstance(form, Mapping) and form.get("type") == "text"):
        raise Refused("the gateway cannot force a format; set text.format.type to text", field="text.format")
    options = mapping(body.get("prompt_cache_options"), "prompt_cache_options")
    if options.get("prewarm"):
        sentence = f"the gateway cannot honour prompt_cache_options.prewarm: {_ANSWERED}"
        raise Refused(sentence, field="prompt_cache_options.prewarm")
    ignored += sorted(unread("text", text, ("format",)) | unread("prompt_cache_options", options, ("prewarm",)))
    return ignored


def _messages(body: Mapping[str, Any]) -> tuple[ChatMessage, ...]:
    reading, given, instructions = _Reading(), body.get("input"), body.get("instructions")
    if instructions is not None:
        reading.messages.append(ChatMessage("system", _text(instructions, "instructions")))
    if isinstance(given, str):
        reading.messages.append(ChatMessage("user", given))
    elif not isinstance(given, list):
        wrong(given, "input", "a string or a list of items")
    for path, item in objects(given, "input") if isinstance(given, list) else ():
        reading.add(item, path)
    reading.finish()
    if not given and not isinstance(given, str):
        raise Refused("input is empty; give at least one item", field="input")
    if not reading.messages or reading.messages[-1].role == "assistant":
        sentence = "input ends with what the model said; end with a message, or with the output of a call"
        raise Refused(sentence, field="input")
    return tuple(reading.messages)


@dataclass
class _Reading:
    """Items become messages. What the model said in one reply, its reasoning, text and calls, is one message."""

    messages: list[ChatMessage] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """Of the tools called, by the ids of the calls."""
    thinking: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def add(self, item: Mapping[str, Any], path: str) -> None:
        kind = string(item.get("type", "message"), f"{path}.type")
        if kind == "message":
            self._message(item, path)
        elif kind == "agent_message":
            self.finish()
            self.messages.append(ChatMessage("user", _joined(item.get("content"), f"{path}.content")))
        elif kind == "reasoning":
            self._begin()
            self.thinking.append(_thinking(item, path))
        elif kind in ("function_call", "custom_tool_call"):
            self._call(item, path, custom=kind == "custom_tool_call")
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self.finish()
            output, called = item.get("output"), item.get("call_id")
            if output is None:
                wrong(output, f"{path}.output", _TEXTS)
            name = self.names.get(called, "") if isinstance(called, str) else ""
            self.messages.append(ChatMessage("tool", _joined(output, f"{path}.output"), name=name))
        elif kind == "additional_tools":
            return
        elif kind == "item_reference":
            raise Refused(f"{path}: nothing is stored here; send the item itself", field=path)
        else:
            sentence = f"{path}: the gateway does not read items of the type {kind[:80]!r}; leave it out"
            raise Refused(sentence, field=path)

    def finish(self) -> None:
        """The model's message ends here, if there is one."""
        if self.said or self.calls or any(self.thinking):
            thinking, text = "".join(self.thinking), "".join(self.said)
            self.messages.append(ChatMessage("assistant", text, tuple(self.calls), thinking))
        self.thinking, self.said, self.calls = [], [], []

    def _begin(self) -> None:
        """Reasoning or text begins another reply, unless calls show that this one goes on."""
        if self.said and not self.calls:
            self.finish()

    def _message(self, item: Mapping[str, Any], path: str) -> None:
        named = string(item.get("role"), f"{path}.role")
        role = _ROLES.get(named)
        if role is None:
            sentence = f"{path}.role is {named[:60]!r}; the gateway takes user, assistant, system or developer"
            raise Refused(sentence, field=f"{path}.role")
        text = _joined(item.get("content"), f"{path}.content")
        if role == "assistant":
            self._begin()
            self.said.append(text)
        else:
            self.finish()
            self.messages.append(ChatMessage(role, text))

    def _call(self, item: Mapping[str, Any], path: str, custom: bool) -> None:
        namespace = item.get("namespace")
        if namespace is not None:
            namespace = string(namespace, f"{path}.namespace")
        tool = Tool(string(item.get("name"), f"{path}.name"), namespace)
        if custom:
            text = _text(item.get("input"), f"{path}.input")
            arguments: Any = text if str(item.get("id")).startswith(RAW) else {"input": text}
        elif isinstance(item.get("arguments"), Mapping):
            arguments = item["arguments"]
        else:
            arguments = _text(item.get("arguments"), f"{path}.arguments")
        call = Call(tool.flat, read_arguments(arguments), string(item.get("call_id"), f"{path}.call_id"))
        self.names[call.id] = call.name
        self.calls.append(call)


def _thinking(item: Mapping[str, Any], path: str) -> str:
    """What the gateway put into a reasoning item; its summary or its text where another server wrote it."""
    sealed = item.get("encrypted_content")
    if isinstance(sealed, str) and sealed.startswith(SEALED):
        try:
            return base64.b64decode(sealed.removeprefix(SEALED), validate=True).decode()
        except ValueError:
            sentence = f"{path}.encrypted_content is not what the gateway wrote; send it back as it came"
            raise Refused(sentence, field=f"{path}.encrypted_content") from None
    return _joined(item.get("summary"), f"{path}.summary") or _joined(item.get("content"), f"{path}.content")


def _text(value: Any, where: str) -> str:
    """A text, which may be empty."""
    return value if isinstance(value, str) else wrong(value, where, "a string")


def _joined(given: Any, where: str) -> str:
    """Text, or the texts of a list of parts, joined; null is empty."""
    if given is None or isinstance(given, str):
        return given or ""
    if not isinstance(given, list):
        wrong(given, where, _TEXTS)
    texts = []
    for path, part in objects(given, where):
        kind = string(part.get("type"), f"{path}.type")
        if kind not in _TEXT_IN:
            sentence = f"{path} has the type {kind[:60]!r}, which the gateway does not take; send text"
            raise Refused(sentence, field=path)
        texts.append(_text(part.get(_TEXT_IN[kind]), f"{path}.{_TEXT_IN[kind]}"))
    return "".join(texts)
