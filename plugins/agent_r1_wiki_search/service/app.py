"""The FastAPI app: POST /search, GET /health, GET /metrics.

A body is read as JSON, whatever its content type says. Every refusal is JSON with one sentence under `error`. A request
that comes too early, too late or too often gets 503 and may be repeated.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import time
from collections.abc import Collection
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_r1_core import __version__
from agent_r1_wiki_search.service.batching import Cut, QueueFull
from agent_r1_wiki_search.service.messages import SearchRequest, complaint, search_answer
from agent_r1_wiki_search.service.service import CONTENT_TYPE, REASONS, Service, State

LONGEST_BODY = 1 << 21
"""Bytes of a request; the longest queries that are allowed need less."""
BODY_SECONDS = 10.0
"""For a body to come in."""
RETRY_AFTER = 1
"""Seconds after which a refused request may be repeated."""
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:]+))(?::\d{1,5})?", re.IGNORECASE)


class Door:
    """An ASGI application around another one: what a request must be before it is read, and how long its body may take.

    A web page elsewhere may make a name of its own lead here (DNS rebinding) and would then be shown what is answered;
    so only names that are the service's own are answered, and addresses, which cannot be led elsewhere.
    """

    def __init__(self, app: ASGIApp, service: Service, names: Collection[str]) -> None:
        """`names` are those of the service, beside localhost."""
        self._app = app
        self._service = service
        known = ["localhost", *(name.lower() for name in names if not _is_address(name))]
        self._names = list(dict.fromkeys(known))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it with a sentence."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        if not self._is_ours(scope):
            return await self._refusal()(scope, receive, send)
        if scope["path"] != "/search":
            return await self._app(scope, receive, send)
        begun, received = time.perf_counter(), 0

        async def bounded() -> Message:
            nonlocal received
            message = await self._message(receive, begun + BODY_SECONDS)
            received += len(message.get("body", b""))
            if received > LONGEST_BODY:
                raise HTTPException(413, f"the request is longer than {LONGEST_BODY} bytes; send fewer queries")
            return message

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._service.counters.request(message["status"], time.perf_counter() - begun)
            await send(message)

        return await self._app(scope, bounded, counted)

    async def _message(self, receive: Receive, until: float) -> Message:
        """The next part of a body, in time and unless the service stops."""
        arriving, stopping = asyncio.ensure_future(receive()), asyncio.ensure_future(self._service.stopping.wait())
        try:
            seconds = until - time.perf_counter()
            await asyncio.wait((arriving, stopping), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if arriving.done():
                return arriving.result()
        finally:
            arriving.cancel()
            stopping.cancel()
        if self._service.stopping.is_set():
            raise unavailable(REASONS[State.STOPPING], close=True)
        why = f"the request did not come in within {BODY_SECONDS:g} seconds; send it again"
        raise HTTPException(408, why, {"Connection": "close"})

    def _is_ours(self, scope: Scope) -> bool:
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        found = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        return found is not None and (_is_address(name := found[1] or found[2]) or name.lower() in self._names)

    def _refusal(self) -> JSONResponse:
        names = ", ".join(self._names)
        sentence = f"this service answers to IP addresses and to {names}; use one of them, or start it with --name"
        return JSONResponse({"error": sentence}, 403)


def unavailable(why: str, close: bool = False) -> HTTPException:
    """A refusal of what may be repeated."""
    return HTTPException(503, why, {"Retry-After": str(RETRY_AFTER)} | ({"Connection": "close"} if close else {}))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


_LOG = logging.getLogger(__name__)


def build_app(service: Service, names: Collection[str]) -> FastAPI:
    """The app of a service, which somebody else loads and closes; `names` as for `Door`."""
    app = FastAPI(title="agent-r1 wiki_search", version=__version__, docs_url=None, redoc_url=None)
    app.add_middleware(Door, service=service, names=names)
    app.add_exception_handler(StarletteHTTPException, _refuse)

    @app.post("/search")
    async def search(request: Request) -> Response:
        """The passages that match each query best."""
        asked = await _read(request)
        if service.state is not State.READY:
            raise unavailable(REASONS[service.state], close=service.state is State.STOPPING)
        try:
            results = await service.search(asked.queries, asked.top_k)
        except QueueFull:
            raise unavailable("too many queries wait already; try again later") from None
        except Cut:
            raise unavailable(REASONS[State.STOPPING], close=True) from None
        except Exception as error:
            service.counters.error()
            _LOG.exception("the searcher failed")
            raise HTTPException(500, f"the searcher failed with {type(error).__name__}: {error}") from error
        return Response(search_answer(results, service.index), media_type="application/json")

    @app.get("/health")
    async def health() -> Response:
        """Whether searches are answered, and what is searched."""
        status = {"status": service.state.value, "index": service.index, "facts": service.facts}
        return JSONResponse(status, 200 if service.state is State.READY else 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        """The metrics in Prometheus' text format."""
        return Response(service.counters.text(), media_type=CONTENT_TYPE)

    return app


async def _read(request: Request) -> SearchRequest:
    try:
        return SearchRequest.model_validate_json(await request.body())
    except ValidationError as error:
        raise HTTPException(422, complaint(error)) from None
    except ClientDisconnect:
        raise HTTPException(400, "the request ended before its body did; send it again") from None


async def _refuse(request: Request, error: Any) -> Response:
    return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)
