"""A gateway that reports, and a program's episode in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from agent_r1_gateway_kit.exact import Report
from agent_r1_gateway_kit.http_client import Pending, call
from agent_r1_gateway_kit.talks import TALKS, Reply, Talk

_HOLDING = 30.0
"""Seconds in which a request reaches the engine."""
_LEAVING = 3.0
"""Seconds in which a gateway notices that a client has left."""


class Program:
    """A program in its episode: what it may ask, what it was told, and what became of it."""

    def __init__(self, address: str, api: str, policy: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> None:
        self.policy = list(policy)
        self.api = api
        self.opened = call("POST", f"{address}/episodes", {"policy": self.policy, **options})
        self.key = str(self.opened["api_key"])
        self._at = f"{address}/episodes/{self.opened['id']}"
        self._report: Report | None = None

    def talk(self, system: str = "", tools: Sequence[str] = (), api: str | None = None, **fields: Any) -> Talk:
        """Begin a conversation; `tools` are names, `fields` stand in each of its requests."""
        return TALKS[api or self.api](self.send, self.policy, system, tools, {"model": self.opened["model"], **fields})

    def send(self, path: str, body: Any, headers: Mapping[str, str] | None = None, method: str = "POST") -> Pending:
        """Send a request to the gateway; the path stands behind the base address of OpenAI's or Anthropic's API."""
        base = self.opened["anthropic_base_url"] if path.startswith("/v1/messages") else self.opened["base_url"]
        key = {"authorization": f"Bearer {self.key}", "x-api-key": self.key}
        return Pending(method, base + path, body, {**key, **(headers or {})})

    def until_held(self, number: int = 1) -> None:
        """Wait until the engine holds this many replies back, or for half a minute."""
        self._wait(lambda: self._held() >= number, _HOLDING)

    def abandon(self, pending: Pending) -> None:
        """Leave before the answer, once the engine is at it, and give the gateway time to notice: until it has
        cancelled the reply, or for three seconds, since others may still wait for it."""
        self.until_held()
        held = self._held()
        pending.leave()
        self._wait(lambda: self._held() < held, _LEAVING)

    def release(self) -> None:
        """Let the engine say what it holds back."""
        call("POST", f"{self._at}/release", {})

    def end(self, error: str | None = None) -> Report:
        """The program ends, or fails with an error; what the gateway would train."""
        if self._report is None:
            self._report = Report.of(call("POST", f"{self._at}/end", {} if error is None else {"error": error}))
        return self._report

    def trained(self, *conversations: Sequence[Reply]) -> None:
        """Whether exactly these replies are trained, and the engine read the very ids of what each continued."""
        self.end().check([[reply.action for reply in conversation] for conversation in conversations])

    def _held(self) -> int:
        return int(call("GET", self._at)["held"])

    @staticmethod
    def _wait(so: Callable[[], bool], seconds: float) -> None:
        late = time.monotonic() + seconds
        while not so() and time.monotonic() < late:
            time.sleep(0.02)

    def context(self, reply: Reply) -> str:
        """What the engine read before it said this."""
        return self.end().action(reply.action).context


class Gateway:
    """The gateway under test."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        told = call("GET", self.address)
        self.name = str(told["name"])
        self.offers = [*told["apis"], *told.get("offers", ())]
        self.controls = [str(one) for one in told.get("controls", ())]

    def needs(self, *offers: str) -> None:
        """Skip the test unless the gateway offers this."""
        missing = [one for one in offers if one not in self.offers]
        if missing:
            pytest.skip(f"not offered: {', '.join(missing)}")
