"""History: which turn of an episode a request continues, by the content of its messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agent_r1_core import Action
from agent_r1_gateway.wire import ChatMessage, ChatRequest, Reply, plain_number


@dataclass(frozen=True)
class Place:
    """Where a request goes on."""

    after: int | None
    """The turn whose action it continues; None: none, so that a context begins."""
    new: tuple[ChatMessage, ...]
    """Its messages behind that action; all of them where a context begins."""
    why: str
    """Why a context begins, or that a turn is continued."""


class Said:
    """What the policy sampled for its latest replies, by the message in which a program gives one back unchanged."""

    def __init__(self, most: int = 10_000) -> None:
        """Keep `most` replies."""
        self._texts: dict[str, str] = {}
        self._most = most

    def add(self, reply: Reply, action: Action) -> None:
        """The action was this reply."""
        self._texts[message_of(reply).key()] = action.repeated
        if len(self._texts) > self._most:
            del self._texts[next(iter(self._texts))]

    def text(self, message: ChatMessage) -> str | None:
        """The content to repeat; None: the message is none of the replies."""
        return self._texts.get(message.key()) or None


class History:
    """What a program has said and been answered."""

    def __init__(self) -> None:
        self._turns: dict[bytes, int] = {}
        """By the digest of tools and messages up to an action, the action included: its turn."""
        self._texts: set[bytes] = set()
        """The same digests, of the messages alone."""

    def place(self, request: ChatRequest) -> Place:
        """Find the longest conversation that the request continues."""
        found: tuple[int, int] | None = None
        for length, digest in _digests(request.tools, request.messages):
            if digest in self._turns:
                found = self._turns[digest], length
        if found is not None:
            turn, length = found
            return Place(turn, request.messages[length:], "continues")
        return Place(None, request.messages, self._why(request))

    def add(self, request: ChatRequest, reply: Reply, turn: int) -> None:
        """This turn answered the request with this reply."""
        messages = (*request.messages, message_of(reply))
        *_, (_, digest) = _digests(request.tools, messages)
        *_, (_, alone) = _digests((), messages)
        self._turns[digest] = turn
        self._texts.add(alone)

    def _why(self, request: ChatRequest) -> str:
        if not self._turns:
            return "first request"
        if any(digest in self._texts for _, digest in _digests((), request.messages)):
            return "other tools"
        if any(message.role == "assistant" for message in request.messages):
            return "an edited past"
        return "a new conversation"


def message_of(reply: Reply) -> ChatMessage:
    """The reply as a program gives it back unchanged."""
    return ChatMessage("assistant", reply.text, reply.calls, reply.thinking)


def _digests(tools: Sequence[dict[str, Any]], messages: Sequence[ChatMessage]) -> Iterator[tuple[int, bytes]]:
    """Behind each assistant's message: how many messages there are so far, and their digest."""
    digest = hashlib.blake2b(json.dumps(plain_number(tools), sort_keys=True, default=str).encode(), digest_size=16)
    for length, message in enumerate(messages, 1):
        digest.update(message.key().encode())
        if message.role == "assistant":
            yield length, digest.digest()
