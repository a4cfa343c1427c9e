"""Passes requests for other models on to where these are served; nothing of them is trained on."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass

import httpx2
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from agent_r1_gateway.wire import Refused

_KEPT = ("accept", "anthropic-beta", "anthropic-version", "content-type")
_RETURNED = ("content-type", "retry-after")


@dataclass(frozen=True)
class Elsewhere:
    """Where another model is served."""

    address: str
    """Its base address, such as `https://host/v1`."""
    key_variable: str | None = None
    """The environment variable that holds the key for it."""


class Forwarder:
    """One client for all requests that are passed on."""

    def __init__(self) -> None:
        self._client: httpx2.AsyncClient | None = None

    async def send(self, request: Request, body: bytes, where: Elsewhere) -> Response:
        """The other server's answer, streamed through as it comes.

        Raises:
            Refused: it cannot be reached.
        """
        client = self._client = self._client or httpx2.AsyncClient(timeout=600)
        headers = {name: request.headers[name] for name in _KEPT if name in request.headers}
        if where.key_variable is not None:
            key = os.environ.get(where.key_variable, "")
            headers |= {"authorization": f"Bearer {key}", "x-api-key": key}
        path = request.url.path.removeprefix("/v1")
        query = f"?{request.url.query}" if request.url.query else ""
        url = where.address.rstrip("/") + path + query
        try:
            answer = await client.send(client.build_request("POST", url, content=body, headers=headers), stream=True)
        except httpx2.HTTPError as error:
            raise Refused(
                f"{where.address} cannot be reached ({error}); correct env.models", 502, "api_error"
            ) from error

        async def pieces() -> AsyncIterator[bytes]:
            try:
                async for piece in answer.aiter_bytes():
                    yield piece
            finally:
                await answer.aclose()

        answered = {name: answer.headers[name] for name in _RETURNED if name in answer.headers}
        return _PassedOn(pieces(), answer.status_code, answered)


class _PassedOn(StreamingResponse):
    """Breaks off where the other server's answer does, so that the client's connection ends, too."""

    async def stream_response(self, send: Send) -> None:
        with suppress(httpx2.HTTPError):
            await super().stream_response(send)
