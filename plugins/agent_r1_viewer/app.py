"""The viewer as an application: the page, its files, the API, and news of what changes; it reads runs, never writes
them."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import mimetypes
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import anyio.to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from agent_r1_core.contracts.json_text import to_json
from agent_r1_core.errors import AgentR1Error
from agent_r1_viewer.answers import Answer, Answers, Lines, NotFound, Text
from agent_r1_viewer.front_page import STATIC, front_page, hastened, policy
from agent_r1_viewer.gate import Gate
from agent_r1_viewer.live import Live
from agent_r1_viewer.remarks import MOST_BYTES

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_UNKNOWN = "application/octet-stream"
_TYPES = {".js": "text/javascript"}
"""Where the machine's own table may say something that browsers refuse."""


class StaticFiles:
    """An ASGI application that serves the files which a folder has when it is made, and nothing else.

    Each is read and compressed once, since a page asks for two dozen of them before it shows anything.
    """

    def __init__(self, folder: Path) -> None:
        paths = (path for path in folder.rglob("*") if path.is_file())
        self._files = {f"/{path.relative_to(folder).as_posix()}": _File(path) for path in paths}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a file, or that the browser has it already."""
        request = Request(scope)
        file = self._files.get(scope["path"].removeprefix(scope.get("root_path", "")))
        if file is None:
            raise HTTPException(404)
        await file.answer(request)(scope, receive, send)


@dataclass(frozen=True)
class _File:
    path: Path

    def answer(self, request: Request) -> Response:
        packed = "gzip" in request.headers.get("accept-encoding", "")
        headers = {"etag": self._tag, "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == self._tag:
            return Response(status_code=304, headers=headers)
        if packed:
            headers["content-encoding"] = "gzip"
        kind = _TYPES.get(self.path.suffix) or mimetypes.guess_type(self.path)[0] or _UNKNOWN
        return Response(self._packed if packed else self._content, media_type=kind, headers=headers)

    @cached_property
    def _content(self) -> bytes:
        return self.path.read_bytes()

    @cached_property
    def _packed(self) -> bytes:
        return gzip.compress(self._content, mtime=0)

    @cached_property
    def _tag(self) -> str:
        return f'"{hashlib.sha256(self._content).hexdigest()}"'


UNREAD = 20.0
"""Seconds that a client may leave a part unread; then its answer ends in the middle."""


class LineStream(StreamingResponse):
    """Lines of JSON as they are found. Few are sent at a time, others hold nothing yet; one that nobody reads ends."""

    def __init__(self, parts: Generator[str], turns: asyncio.Semaphore, headers: Mapping[str, str]) -> None:
        now = {**headers, "content-encoding": "identity"}  # compressed, lines would wait for others
        super().__init__(parts, media_type="application/x-ndjson", headers=now)
        self._parts = parts
        self._turns = turns

    async def stream_response(self, send: Send) -> None:
        """Send the parts, unless nobody reads them."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(UNREAD):
                await send(message)

        async with self._turns:
            with contextlib.closing(self._parts), contextlib.suppress(TimeoutError):
                await super().stream_response(send_in_time)


THREADS = 4
"""Answers that are read at once."""
_NEEDED = ("agent_r1_core.config.yaml_text", "pyarrow.compute", "pyarrow.parquet")
"""What the first answers import: the person who opens the page should not wait for it."""
_HEAD_START = 0.2
"""Seconds that the first answer may take before the page can be opened; beside a browser's requests it takes longer."""
_COMPRESSED = 2000
"""Bytes from which on an answer is compressed."""


def build(answers: Answers, live: Live, token: str) -> ASGIApp:
    """The application, for those who have the token; `live` has the news about the same runs."""
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
    with contextlib.suppress(Exception):  # the answer itself will say it
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
