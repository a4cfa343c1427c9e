"""Connection: requests to one search service, over pooled connections, repeated while they may be.

Requests go straight to the service, through no proxy. Whatever the service sends, a request ends at its deadline, and
its answer is no larger than its caller expects.
"""

from __future__ import annotations

import json
import math
import random
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from agent_r1_core.contracts.json_text import check_json_size

CALL_SECONDS = 10.0
"""For a call without a deadline."""
LONGEST = 1 << 20
"""Most bytes of an answer that holds no passages."""
_CONNECT_SECONDS = 3.0
_CONNECTIONS = 64
"""At once; further requests wait for a free one."""
_FIRST_PAUSE = 0.25
"""Seconds before the first repetition; each further one waits twice as long, up to `_LONGEST_PAUSE`."""
_LONGEST_PAUSE = 4.0
_MEMORY = 8
"""Bytes of memory that reading an answer may take for each byte that it may have: what text takes, and a third more."""
_SENTENCE = 500
"""Characters."""
_RESERVE = 0.05
"""Share of the time that is left for handing on the answer."""


class NoAnswer(Exception):
    """The service did not answer in the time and with the repetitions that were allowed; says why."""


@dataclass
class Call:
    """A call of the tool: until when it may last, and what it took."""

    deadline: float = math.inf
    """`time.monotonic()`; where there is none, `CALL_SECONDS` from now."""
    repeats: int = 0
    """Requests beyond the first."""
    away: bool = False
    """The service did not answer, or only for another index."""

    def __post_init__(self) -> None:
        if math.isinf(self.deadline):
            self.deadline = time.monotonic() + CALL_SECONDS

    def left(self) -> float:
        """Seconds."""
        return self.deadline - time.monotonic()


@dataclass(frozen=True)
class Reply:
    """What the service answered."""

    status: int
    body: Any
    """Its JSON; None: it is none."""

    def get(self, name: str) -> Any:
        """A field of the answer; None: there is no such field."""
        return self.body.get(name) if isinstance(self.body, dict) else None

    @property
    def error(self) -> str:
        """The sentence of a refusal, cut."""
        return str(self.get("error") or f"status {self.status}")[:_SENTENCE]


class Connection:
    """Sends requests; safe to use from several threads."""

    def __init__(self, url: str) -> None:
        """Nothing is sent yet.

        Raises:
            ValueError: this is no URL.
        """
        import httpx2

        from agent_r1_wiki_search.transport import Transport

        self._closed = threading.Event()
        self._jitter = random.Random()
        try:
            self._client = httpx2.Client(
                base_url=url,
                headers={"accept-encoding": "identity"},  # what is compressed may become long
                trust_env=False,
                transport=Transport(_CONNECTIONS),
            )
        except httpx2.InvalidURL as error:
            raise ValueError(str(error)) from error

    def request(
        self,
        method: str,
        path: str,
        body: Any,
        call: Call,
        retries: int,
        repeatable: Collection[int] = (502, 503, 504),
        longest: int = LONGEST,
    ) -> Reply:
        """Send a request, again after connection errors and these status codes; the answer has `longest` bytes at most.

        Raises:
            NoAnswer: it was not answered.
        """
        reserve = _RESERVE * call.left()
        reason, pause = "no time was left", 0.0
        for attempt in range(1 + retries):
            if pause >= call.left() - reserve or self._closed.wait(pause):
                break
            call.repeats += attempt > 0
            pause = min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE) * self._jitter.uniform(0.5, 1.0)
            outcome = self._send(method, path, body, call.left() - reserve, longest)
            if isinstance(outcome, str):
                reason = outcome
                continue
            reply, retry_after = outcome
            if reply.status not in repeatable:
                return reply
            reason, pause = reply.error, max(pause, retry_after)
        raise NoAnswer(reason)

    def wait(self, seconds: float) -> None:
        """Wait, unless the connection is closed."""
        self._closed.wait(seconds)

    def close(self) -> None:
        """Close all connections; requests that wait for a repetition give up."""
        self._closed.set()
        self._client.close()

    def _send(self, method: str, path: str, body: Any, seconds: float, longest: int) -> tuple[Reply, float] | str:
        """The reply, with the seconds after which it may be asked for again; or why there is none."""
        import httpcore2
        import httpx2

        ends = time.monotonic() + seconds
        timeout = httpx2.Timeout(ends, pool=seconds, connect=min(ends, time.monotonic() + _CONNECT_SECONDS))
        content = bytearray()
        try:
            with self._client.stream(method, path, json=body, timeout=timeout) as response:
                for part in response.iter_raw():
                    content += part
                    if len(content) > longest:
                        return f"its answer is longer than {longest} bytes"
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
            return f"{type(error).__name__}: {error}".rstrip(": ")
        except RuntimeError as error:  # the client was closed
            return str(error)
        after = response.headers.get("Retry-After", "")
        return Reply(response.status_code, _json(bytes(content), longest)), float(after) if after.isdigit() else 0.0


def _json(content: bytes, longest: int) -> Any:
    try:
        check_json_size(content, _MEMORY * longest)
        return json.loads(content)
    except ValueError:
        return None
