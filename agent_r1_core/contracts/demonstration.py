"""Demonstrations: the actions that a task's messages show, read from the OpenAI chat format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent_r1_core.contracts.markup import encodable
from agent_r1_core.contracts.tool_format import ToolCall

if TYPE_CHECKING:
    from agent_r1_core.trajectory import Message


@dataclass
class DemonstratedAction:
    """One assistant message, and what was answered to it."""

    text: str
    calls: list[ToolCall] = field(default_factory=list)
    """The calls that the message has beside its text."""
    replies: list[Message] = field(default_factory=list)
    """The messages that follow it, up to the next action, each with its role and its text."""

    @property
    def answers(self) -> list[str]:
        """The texts of the tool messages among its replies."""
        return [reply["content"] for reply in self.replies if reply["role"] == "tool"]


def demonstrated_actions(messages: Iterable[Mapping[str, Any]]) -> list[DemonstratedAction]:
    """The actions of a demonstration in order.

    Messages of other roles than `assistant` and `tool` are what an environment said then.

    Raises:
        ValueError: the messages are no demonstration; the text says of which message, counted from 1, and why.
    """
    actions: list[DemonstratedAction] = []
    for number, message in enumerate(messages, 1):
        try:
            role, text = message["role"], text_of(message)
            if role == "assistant":
                actions.append(_action(message, text))
            elif not actions:
                raise ValueError(f"comes from the {role}, and a demonstration begins with an assistant message")
            else:
                actions[-1].replies.append({"role": role, "content": text})
        except (AttributeError, KeyError, TypeError) as error:
            what = f"it lacks {error}" if isinstance(error, KeyError) else error
            raise ValueError(f"message {number} is not of the chat format: {what}") from None
        except ValueError as error:
            raise ValueError(f"message {number} {error}") from None
    if not actions:
        raise ValueError("there is no assistant message")
    return actions


def _action(message: Mapping[str, Any], text: str) -> DemonstratedAction:
    if message.get("function_call"):
        raise ValueError("has a function_call, as the older format does; write it as tool_calls")
    if message.get("weight", 1) != 1:
        raise ValueError(f"has the weight {message['weight']}, and every action is learnt from alike; leave it out")
    action = DemonstratedAction(_with_thought(message, text), _calls(message))
    if not action.text.strip() and not action.calls:
        raise ValueError("says nothing and calls nothing; leave it out, or write what it says")
    return action


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message: its content, of which parts that are texts are joined; nothing where it is null.

    Raises:
        ValueError: the content is no text.
    """
    content = message.get("content")
    parts = [] if content is None else content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    known = [text for text in texts if isinstance(text, str)]
    if len(known) < len(texts):
        raise ValueError("has a content that is no text; write a text, null, or a list of parts of type text")
    return encodable("".join(known))


def _with_thought(message: Mapping[str, Any], text: str) -> str:
    """The text of an action behind the thought that the message has in a field of its own, as Qwen3 writes both."""
    thought = message.get("reasoning_content") or message.get("reasoning")
    if thought is None or thought == "":
        return text
    if not isinstance(thought, str):
        raise ValueError("has a reasoning_content that is no text; write a text, or leave it out")
    if "</think>" in text:
        raise ValueError("has a thought in its content and one in reasoning_content; leave one of them out")
    if "</think>" in thought:
        raise ValueError("has a </think> in its reasoning_content, where the thought would end; leave it out")
    return f"<think>\n{encodable(thought).strip()}\n</think>\n\n{text.lstrip()}"


def _calls(message: Mapping[str, Any]) -> list[ToolCall]:
    """The calls of an assistant message; arguments may be JSON text, as the format has it, or an object."""
    found = []
    for call in message.get("tool_calls") or ():
        function = call["function"]
        name, arguments = function["name"], function.get("arguments", {})
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except (ValueError, RecursionError):
                raise ValueError(f"calls {name} with arguments that are not JSON; write a JSON object") from None
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise ValueError(f"calls {name} with arguments that are no JSON object; write one")
        found.append(ToolCall(name, arguments))
    return found
