"""Asks a model over the OpenAI Chat Completions API: bounded at once, in size and in time, each question once."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Generic, TypeVar

import httpx2

from agent_r1_core import ComponentConfig, EngineError, RewardFn, Sampling
from agent_r1_core.contracts.reward import Ask
from agent_r1_judges.config import JudgeConfig

T = TypeVar("T")
_LARGEST = 2**20
"""Bytes of a reply."""
_AGAIN = (408, 409, 429, 500, 502, 503, 504, 529)
"""Statuses after which the same request may succeed."""
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 20.0
"""Seconds before another attempt: twice as long after each, or what the server asks for."""
_SHOWN = 200
_WORD = 4
"""Tokens of a reply that was begun, of which a word is read."""


class JudgeError(Exception):
    """The judge gave no verdict; the text says why."""


@dataclass(frozen=True)
class Verdict(Generic[T]):
    """What the judge said."""

    value: T
    reply: str
    attempts: int
    prompt_tokens: int
    """Of all attempts, as far as the server counts them."""
    completion_tokens: int


@dataclass
class _Attempts:
    """What the attempts at one question cost."""

    count: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, usage: Any) -> None:
        found = usage if isinstance(usage, dict) else {}
        counts = (found.get(name) for name in ("prompt_tokens", "completion_tokens"))
        prompt, completion = (count if type(count) is int and count > 0 else 0 for count in counts)
        self.prompt_tokens += prompt
        self.completion_tokens += completion

    def __str__(self) -> str:
        tokens = f", {self.prompt_tokens + self.completion_tokens} tokens" if self.prompt_tokens else ""
        return f"{self.count} attempt{'s' if self.count > 1 else ''}{tokens}"


class Asker:
    """Asks one model."""

    def __init__(self, config: ComponentConfig) -> None:
        assert isinstance(config, JudgeConfig)
        self._config = config
        self.frozen: Ask | None = None
        """Asks a frozen model in place of the address."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._known: OrderedDict[str, asyncio.Task[Verdict[Any]]] = OrderedDict()

    async def ask(self, system: str, user: str, read: Callable[[str], T], begin: str = "") -> tuple[Verdict[T], bool]:
        """The verdict that `read` finds in the reply, and whether the question had been asked before.

        Args:
            read: raises ValueError where a reply cannot be read, so that the model is asked again.
            begin: put into the mouth of a frozen model, which then says a word.

        Raises:
            JudgeError: there is no verdict after the last attempt.
        """
        self._enter(asyncio.get_running_loop())
        config = self._config
        body = {
            "model": config.model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
            "temperature": 0,
            **config.options,
        }
        content = json.dumps({name: value for name, value in body.items() if value is not None})
        if not config.cache:
            return await self._ask(content.encode(), read, begin), False
        key = sha256(content.encode()).hexdigest()
        known = key in self._known
        if not known:
            self._known[key] = asyncio.create_task(self._ask(content.encode(), read, begin))
        task = self._known[key]
        self._known.move_to_end(key)
        while len(self._known) > config.cache:
            self._known.popitem(last=False)
        try:
            return await asyncio.shield(task), known
        except JudgeError:
            self._known.pop(key, None)
            raise

    def _enter(self, loop: asyncio.AbstractEventLoop) -> None:
        """Connections and tasks of another event loop are of no use in this one; finished verdicts are."""
        if self._loop is loop:
            return
        self._loop = loop
        self._client = httpx2.AsyncClient(timeout=self._config.request_timeout)
        self._room = asyncio.Semaphore(self._config.at_once)
        good = [(key, task) for key, task in self._known.items() if task.done() and not task.cancelled()]
        self._known = OrderedDict((key, task) for key, task in good if task.exception() is None)

    async def _ask(self, content: bytes, read: Callable[[str], T], begin: str) -> Verdict[T]:
        spent, wait, problem = _Attempts(), _FIRST_WAIT, ""
        most = 1 + (self._config.retries if self.frozen is None else 0)
        while spent.count < most:
            if spent.count:
                await asyncio.sleep(min(wait, _LONGEST_WAIT))
            wait, spent.count = _FIRST_WAIT * 2**spent.count, spent.count + 1
            try:
                async with self._room, asyncio.timeout(self._config.request_timeout):
                    status, headers, text = await self._send(content, begin)
            except (httpx2.HTTPError, EngineError, TimeoutError) as error:
                problem = f"cannot be reached ({str(error) or type(error).__name__})"
                continue
            if status != 200:
                problem = f"answered {status}: {_cut(text)}"
                if status not in _AGAIN:
                    break
                wait = _seconds(headers.get("retry-after")) or wait
                continue
            try:
                reply = _reply(text, spent)
                value = read(without_thinking(reply))
            except ValueError as error:
                problem = f"gave no verdict: {error}; it said {_cut(text)}"
                continue
            return Verdict(value, reply, spent.count, spent.prompt_tokens, spent.completion_tokens)
        where = "the frozen judge" if self.frozen is not None else f"the judge at {self._config.address}"
        raise JudgeError(f"{where} {problem} ({spent})")

    async def _send(self, content: bytes, begin: str) -> tuple[int, httpx2.Headers, str]:
        """Status, headers and text of the answer; redirects are answers, too."""
        if self.frozen is not None:
            return 200, httpx2.Headers(), await _completion(self.frozen, json.loads(content), begin)
        key = os.environ.get(self._config.key or "", "")
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        url, body = f"{self._config.address.rstrip('/')}/chat/completions", bytearray()
        async with self._client.stream("POST", url, content=content, headers=headers) as answer:
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > _LARGEST:
                    raise httpx2.ReadError(f"its reply has more than {_LARGEST:,} bytes")
        return answer.status_code, answer.headers, body.decode(errors="replace")


async def _completion(frozen: Ask, asked: dict[str, Any], begin: str) -> str:
    """What a frozen model answers, as a chat completion."""
    most = min(asked["max_tokens"], _WORD) if begin else asked["max_tokens"]
    reply = await frozen(asked["messages"], Sampling(temperature=0, max_new_tokens=most), begin)
    usage = {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens}
    return json.dumps({"choices": [{"message": {"content": reply.text}}], "usage": usage})


def _reply(text: str, spent: _Attempts) -> str:
    """The text of a chat completion; a ValueError where it is none."""
    try:
        answer = json.loads(text)
        spent.add(answer.get("usage"))
        reply = answer["choices"][0]["message"]["content"]
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        raise ValueError("it is no chat completion") from None
    if not isinstance(reply, str):
        raise ValueError("its reply has no text")
    return reply


def without_thinking(reply: str) -> str:
    """The reply without what precedes `</think>` and without a code fence around it."""
    text = reply.rpartition("</think>")[2].strip()
    fenced = re.fullmatch(r"```(?:json)?\s*\n(.*)\n```", text, re.DOTALL)
    return fenced[1] if fenced else text


def _seconds(value: str | None) -> float:
    return float(value) if value and re.fullmatch(r"\d{1,6}(\.\d+)?", value) else 0.0


def _cut(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


class AskingReward(RewardFn):
    """A reward that asks a model."""

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._asker = Asker(self.config)

    @classmethod
    def programs(cls, config: JudgeConfig) -> dict[str, str]:
        """Where the texts of the run are sent."""
        return config.programs()

    @classmethod
    def unavailable(cls, config: JudgeConfig) -> str | None:
        """A sentence if the key is missing."""
        return config.unavailable()
