"""Values of requests, each with its place: what has another shape is refused in one sentence that names the place."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from agent_r1_gateway.dialects.fields import Field, check_fields
from agent_r1_gateway.wire import DEEPEST, ChatMessage, Refused, too_deep, well_formed

_PIECE = 4096
_MOST_UNREAD = 20
_NAMES = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object"}
PLAIN: Mapping[str, str | None] = {"text": "text"}
"""By the type of a block, the field with its text; None: it is left out."""


@dataclass(frozen=True)
class Given:
    """A value of a request. Its methods raise Refused where it is not what they read."""

    value: Any
    where: str = ""
    """Its path, such as `messages[0].content`."""

    def __getitem__(self, name: str) -> Given:
        """A field of an object; null has none."""
        return Given(self.object().get(name), f"{self.where}.{name}".removeprefix("."))

    def __iter__(self) -> Iterator[Given]:
        """The objects of a list; null has none."""
        several = [] if self.value is None else self.value
        if not isinstance(several, list):
            self.wrong("a list of objects")
        for at, one in enumerate(several):
            inner = Given(one, f"{self.where}[{at}]")
            yield inner if isinstance(one, Mapping) else inner.wrong("an object")

    def refuse(self, why: str) -> NoReturn:
        """Refuse the request; `why` goes on behind the place."""
        raise Refused(f"{self.where} {why}", field=self.where)

    def wrong(self, wanted: str) -> NoReturn:
        """Refuse the request for the type of the value."""
        self.refuse(f"is {'empty' if self.value == '' else _NAMES.get(type(self.value), 'missing')}; give {wanted}")

    def object(self) -> Mapping[str, Any]:
        """An object; null is empty."""
        return {} if self.value is None else self.value if isinstance(self.value, Mapping) else self.wrong("an object")

    def string(self) -> str:
        """A text that is not empty."""
        return self.value if isinstance(self.value, str) and self.value else self.wrong("a string")

    def text(self) -> str:
        """A text; null is empty."""
        return "" if self.value is None else self.value if isinstance(self.value, str) else self.wrong("a string")

    def joined(self, kinds: Mapping[str, str | None] = PLAIN) -> str:
        """A text, or the texts of a list of blocks; null is empty."""
        if isinstance(self.value, list):
            return "".join(block.block_text(kinds) for block in self)
        return self.text() if isinstance(self.value, str | None) else self.wrong("a string or a list of text blocks")

    def block_text(self, kinds: Mapping[str, str | None] = PLAIN) -> str:
        """The text of a block."""
        kind = self["type"].string()
        if kind not in kinds:
            self.refuse(f"has the type {kind[:60]!r}, which the gateway does not take; send text")
        name = kinds[kind]
        return "" if name is None or self[name].value == "" else self[name].string()

    def flag(self) -> bool:
        """A boolean; null is false."""
        return bool(self.value) if isinstance(self.value, bool | None) else self.wrong("true or false")

    def count(self) -> int | None:
        """A number of tokens."""
        if self.value is None:
            return None
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            self.wrong("a whole number")
        if self.value < 1:
            self.refuse("is below 1; ask for at least one token")
        return self.value

    def strings(self) -> tuple[str, ...]:
        """Texts that are not empty: a list of them, or one; null is none."""
        if self.value is None:
            return ()
        if isinstance(self.value, str):
            return (self.string(),)
        if not isinstance(self.value, list):
            self.wrong("a string or a list of strings")
        return tuple(Given(one, f"{self.where}[{at}]").string() for at, one in enumerate(self.value))

    def unread(self, *read: str) -> set[str]:
        """The fields of an object that are not among those that are read."""
        place = re.sub(r"\[\d+\]", "[]", self.where)
        return {f"{place}.{name}" for name, one in self.object().items() if name not in read and one is not None}


def opened(body: Mapping[str, Any], table: Mapping[str, Field]) -> tuple[Given, list[str]]:
    """A body that can be read without further care, and its fields that have no effect.

    Raises:
        Refused: a field is unknown, asks for what the gateway cannot do, or is nested too deep.
    """
    for name, value in body.items():
        parts = enumerate(value) if isinstance(value, list) else ()
        for one in [Given(part, f"{name}[{at}]") for at, part in parts] or [Given(value, name)]:
            if too_deep(one.value):
                one.refuse(f"has lists and objects more than {DEEPEST} levels deep; make it flatter")
    return Given(well_formed(dict(body))), check_fields(body, table)


def messages_of(given: Given, prefill: str) -> list[Given]:
    """The messages of a request.

    Args:
        prefill: what to do instead of letting the assistant speak last.
    """
    messages = given["messages"]
    if messages.value == []:
        messages.refuse("is empty; give at least one message")
    if not isinstance(messages.value, list):
        messages.wrong("a list of messages")
    found = list(messages)
    if prefill and found[-1]["role"].value == "assistant":
        found[-1].refuse(f"is the assistant's, and the policy continues no message that it has begun; {prefill}")
    return found


def conversation(
    parts: Iterable[ChatMessage], goes_on: Callable[[ChatMessage, ChatMessage], bool]
) -> tuple[ChatMessage, ...]:
    """The messages that parts make.

    Args:
        parts: in order; a tool's message names the id of its call in place of the tool.
        goes_on: whether the second of two adjacent parts of the assistant belongs to the first one's message.
    """
    messages, names = list[ChatMessage](), dict[str, str]()
    for one in parts:
        if one.role == "tool":
            one = replace(one, name=names.get(one.name, ""))
        names.update({call.id: call.name for call in one.calls if call.id})
        last = messages[-1] if messages else None
        if last is not None and last.role == one.role == "assistant" and goes_on(last, one):
            last = messages.pop()
            one = ChatMessage("assistant", last.text + one.text, last.calls + one.calls, last.thinking + one.thinking)
        messages.append(one)
    return tuple(messages)


def calls_allowed(choice: Any) -> bool:
    """What a request says about calls: `auto`, `none` or nothing."""
    if choice not in (None, "auto", "none"):
        sentence = "tool_choice forces a call, and the policy decides what it calls; choose 'auto' or 'none'"
        raise Refused(sentence, field="tool_choice")
    return bool(choice != "none")


def function_tool(tool: Given, schema: str = "parameters") -> dict[str, Any]:
    """A tool as chat templates take it.

    Args:
        schema: what the dialect calls the schema of its arguments.
    """
    parameters = dict(tool[schema].object() or {"type": "object", "properties": {}})
    function = {"name": tool["name"].string(), "description": tool["description"].text(), "parameters": parameters}
    return {"type": "function", "function": function}


def listed(ignored: list[str], others: Collection[str]) -> tuple[str, ...]:
    """The fields without effect, and some of those within other fields."""
    return (*ignored, *sorted(others)[:_MOST_UNREAD])


def pieces(text: str) -> list[str]:
    """A text in parts for a stream, since some clients bound the length of a line."""
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


def openai_error(refused: Refused) -> dict[str, Any]:
    """The body of an error, in both of OpenAI's APIs."""
    return {"error": {"message": str(refused), "type": refused.kind, "param": refused.field, "code": refused.code}}
