"""What requests of every dialect become, and what replies are made of; `Refused` says why a request gets no reply.

Messages compare by what the model reads: ids of calls and the way arguments are written do not count.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

Role = Literal["system", "user", "assistant", "tool"]
DEEPEST = 100
"""Lists and objects within each other, in a request or in the arguments of a call."""
LEAST_LOGPROB = -9999.0
"""What OpenAI's APIs say where a token is less likely than JSON can tell."""
MOST_LITERAL = 2**18
"""Characters of arguments that are read as a Python literal."""


@dataclass(frozen=True)
class Call:
    """A tool call of an assistant's message."""

    name: str
    arguments: Mapping[str, Any] | str
    """The object; the text itself where it is neither JSON nor a Python literal of an object, or nested too deep."""
    id: str = field(default="", compare=False)

    @property
    def as_text(self) -> str:
        """The arguments as they were written, or as JSON."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments, ensure_ascii=False)

    @property
    def as_object(self) -> dict[str, Any]:
        """The arguments as an object, whatever they are."""
        return {"input": self.arguments} if isinstance(self.arguments, str) else dict(self.arguments)


@dataclass(frozen=True)
class ChatMessage:
    """One message, whatever dialect wrote it."""

    role: Role
    """A developer's message is a system message."""
    text: str = ""
    """Its text blocks, joined; null is empty."""
    calls: tuple[Call, ...] = ()
    """Of an assistant's message, in order."""
    thinking: str = ""
    """Of an assistant's message: its reasoning, where the client sent it along."""
    name: str = ""
    """Of a tool's message: the tool that it comes from; empty where no call of the request has its id."""

    def key(self) -> str:
        """Equal for messages that the model reads alike; `True` and `1` differ, `1` and `1.0` do not."""
        calls = [[call.name, plain_number(call.arguments)] for call in self.calls]
        return json.dumps([self.role, self.text, calls, self.thinking, self.name], sort_keys=True)


@dataclass(frozen=True)
class ChatRequest:
    """What a program asks the model."""

    model: str
    messages: tuple[ChatMessage, ...]
    """At least one; the last is not the assistant's."""
    tools: tuple[dict[str, Any], ...] = ()
    """Function schemas as the chat templates of Hugging Face take them: `{"type": "function", "function": {"name",
    "description", "parameters"}}`. Empty where the request forbids calls."""
    max_tokens: int | None = None
    """Most tokens of the reply; None: as the run says."""
    stop: tuple[str, ...] = ()
    stream: bool = False
    logprobs: bool = False
    ignored: tuple[str, ...] = ()
    """The fields that it has and that have no effect here."""
    body: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """As it came, for what a dialect repeats in its reply."""


@dataclass(frozen=True)
class TokenLogprob:
    """A sampled token."""

    text: str
    logprob: float
    """Nats."""

    def as_json(self) -> dict[str, Any]:
        """As OpenAI's APIs have it."""
        spelled, likely = list(self.text.encode("utf-8", "replace")), max(self.logprob, LEAST_LOGPROB)
        return {"token": self.text, "logprob": likely, "bytes": spelled, "top_logprobs": []}


@dataclass(frozen=True)
class Reply:
    """What the model answered."""

    id: str
    """Unique, letters and digits."""
    created: int
    """Unix time, seconds."""
    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    """Each has an id."""
    cut: bool = False
    """A token budget cut it."""
    stopped_by: str | None = None
    """The stop string that ended it."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    thinking_tokens: int = 0
    """Of the completion tokens: those up to the end of the first thought; 0 where there is none."""
    logprobs: tuple[TokenLogprob, ...] = ()


class Refused(Exception):
    """A request that gets no reply: one sentence that says what to change."""

    def __init__(
        self,
        sentence: str,
        status: int = 400,
        kind: str = "invalid_request_error",
        field: str | None = None,
        code: str | None = None,
    ):
        super().__init__(sentence)
        self.status = status
        self.kind = kind
        """As the APIs name it: `invalid_request_error`, `authentication_error`, `not_found_error`, ..."""
        self.field = field
        """The field at fault."""
        self.code = code
        """OpenAI's name of what is wrong, such as `context_length_exceeded`."""


def read_arguments(given: Any) -> Mapping[str, Any] | str:
    """The arguments of a call as an object, from an object, from JSON, or from a Python literal, as a client writes
    that prints its dictionaries."""
    if isinstance(given, Mapping):
        return dict(given)
    text = "" if given is None else str(given)
    if not text.strip():
        return {}
    for read in (json.loads, _literal):
        try:
            value = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        if isinstance(value, dict) and not too_deep(value):
            return cast("dict[str, Any]", well_formed(value))
    return text


def _literal(text: str) -> Any:
    """A Python literal as JSON has it: tuples are lists, keys are texts. Parsing takes a hundred times its size."""
    if len(text) > MOST_LITERAL:
        raise ValueError("too long")
    return json.loads(json.dumps(ast.literal_eval(text.strip())))


def too_deep(value: Any) -> bool:
    """Whether lists and objects are nested deeper than any real request has them."""
    level = [value]
    for _ in range(DEEPEST + 1):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, Mapping):
                inner += one.values()
            elif isinstance(one, list | tuple):
                inner += one
        if not inner:
            return False
        level = inner
    return True


def well_formed(value: Any) -> Any:
    """JSON data with U+FFFD in place of every half of a surrogate pair. Programs in JavaScript leave such halves where
    they shorten a text, and no tokenizer takes them."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return value


def plain_number(value: Any) -> Any:
    """The value with every float that is a whole number as an integer."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): plain_number(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_number(inner) for inner in value]
    return value
