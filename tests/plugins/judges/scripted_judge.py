"""A judge that follows a script, at a real address."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from anyio import CapacityLimiter, to_thread
from served import served
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

Reply = str | tuple[int, str] | bytes


def block_of(request: dict[str, Any]) -> str:
    """The data that a request shows."""
    text: str = request["messages"][-1]["content"]
    return text.partition("<data>\n")[2].rpartition("\n</data>")[0]


@dataclass
class ScriptedJudge:
    """Answers chat completions by `says`: a text, a status with a body, or the bytes of a body."""

    says: Callable[[dict[str, Any]], Reply] = lambda request: '{"correct": 10}'
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    address: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    """Of answers that are not 200."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def data(self, place: int = -1) -> Any:
        """What stood in the data block of a request."""
        return json.loads(block_of(self.requests[place]))

    def answer(self, request: dict[str, Any], key: str | None) -> tuple[int, bytes]:
        with self._lock:
            self.requests.append(request)
            self.keys.append(key)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            said = self.says(request)
        finally:
            with self._lock:
                self.at_once -= 1
        if isinstance(said, tuple):
            return said[0], said[1].encode()
        if isinstance(said, bytes):
            return 200, said
        message = {"role": "assistant", "content": said}
        usage = {"prompt_tokens": 100, "completion_tokens": 7}
        return 200, json.dumps({"choices": [{"message": message}], "usage": usage}).encode()

    @contextmanager
    def served(self) -> Iterator[ScriptedJudge]:
        """Answers meanwhile, as many at once as ask."""
        limiter = CapacityLimiter(1000)

        async def complete(asked: Request) -> Response:
            given = await asked.json(), asked.headers.get("authorization")
            status, body = await to_thread.run_sync(self.answer, *given, limiter=limiter)
            return Response(body, status, {} if status == 200 else self.headers)

        with served(Starlette(routes=[Route("/v1/{rest:path}", complete, methods=["POST"])])) as address:
            self.address = f"{address}/v1"
            yield self
