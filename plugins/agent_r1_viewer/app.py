"""The viewer as an application: the page, its files, the API, and news of what changes; it reads runs, never writes
them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import unquote

import anyio.to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from agent_r1_core.contracts.json_text import to_json
from agent_r1_core.errors import AgentR1Error
from agent_r1_viewer.answers import Answer, Answers, Lines, NotFound, Text
from agent_r1_viewer.front_page import STATIC, front_page, hastened, policy
from agent_r1_viewer.gate import Gate
from agent_r1_viewer.line_stream import LineStream
from agent_r1_viewer.live import Live
from agent_r1_viewer.remarks import MOST_BYTES
from agent_r1_viewer.static_files import StaticFiles

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

THREADS = 4
"""Answers that are read at once."""
_NEEDED = ("agent_r1_core.config.yaml_text", "pyarrow.compute", "pyarrow.parquet")
"""What the first answers import: the person who opens the page should not wait for it."""
_HEAD_START = 0.2
"""Seconds that the first answer may take before the page can be opened; beside a browser's requests it takes longer."""
_COMPRESSED = 2000
"""Bytes from which on an answer is compressed."""


def build(answers: Answers, live: Live, token: str) -> ASGIApp:
    """The application, for whoever has the token; `live` tells about the same runs."""
    for module in _NEEDED:
        import_module(module)
    page = hastened(front_page())
    turns = asyncio.Semaphore(THREADS)

    async def front(request: Request) -> Response:
        return HTMLResponse(page)

    async def api(request: Request) -> Response:
        parts, position = _parts(request), live.position
        response = await run_in_threadpool(_response, lambda: answers.answer(parts, dict(request.query_params)), turns)
        response.headers["news"] = position
        return response

    async def remark(request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                return JSONResponse({"error": "This is longer than what can be kept beside a run; shorten it."}, 413)
        return await run_in_threadpool(_response, lambda: answers.keep(_parts(request), body), turns)

    async def news(request: Request) -> Response:
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        since = request.headers.get("last-event-id") or request.query_params.get("since", "")
        events = live.events(request.query_params.getlist("run"), since)
        return StreamingResponse(events, media_type="text/event-stream", headers={"cache-control": "no-store"})

    @contextlib.asynccontextmanager
    async def threads(app: Starlette) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        beginning = asyncio.create_task(_begin(answers, live))
        await asyncio.wait([beginning], timeout=_HEAD_START)
        yield
        beginning.cancel()

    routes = [
        Route("/", front),
        Route("/api/live", news),
        Route("/api/{rest:path}", remark, methods=["POST"]),
        Route("/api/{rest:path}", api),
        Mount("/static", StaticFiles(STATIC)),
    ]
    app = Starlette(routes=routes, exception_handlers={404: _nothing}, lifespan=threads)
    return Gate(GZipMiddleware(app, minimum_size=_COMPRESSED, compresslevel=1), policy(page), token)


async def _begin(answers: Answers, live: Live) -> None:
    """Read what the list of runs says before somebody asks."""
    with contextlib.suppress(Exception):  # whoever asks for it is told
        await live.begin()
        await asyncio.to_thread(answers.answer, ["runs"], {})


def _response(ask: Callable[[], Answer], turns: asyncio.Semaphore) -> Response:
    headers, status = {"cache-control": "no-store"}, 200
    answer: Answer
    try:
        answer = ask()
    except AgentR1Error as error:
        answer, status = {"error": str(error)}, 404 if isinstance(error, NotFound) else 422
    if isinstance(answer, Text):
        return PlainTextResponse(answer.text.encode("utf-8", "replace"), headers=headers)
    if isinstance(answer, Lines):
        return LineStream(answer.parts, turns, headers)
    return Response(to_json(answer), status, media_type="application/json", headers=headers)


def _parts(request: Request) -> list[str]:
    """What follows `/api/` in the address, each part decoded by itself: a run's id may have a slash."""
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    return [unquote(part) for part in raw.decode("latin-1").removeprefix("/api/").split("/")]


async def _nothing(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "There is nothing at this address; begin at the first page."}, 404)
