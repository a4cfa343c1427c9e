"""Gateway: the HTTP server that programs ask; one for the whole process, in a thread of its own.

Each program has a key; requests with an unknown one are refused. A stream opens when the reply is complete, so that
errors keep their status.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agent_r1_core.errors import AgentR1Error, describe_error
from agent_r1_gateway.dialects import chat, messages, responses
from agent_r1_gateway.dialects.fields import Dialect
from agent_r1_gateway.forward import Forwarder
from agent_r1_gateway.line import Asked, Line
from agent_r1_gateway.wire import ChatRequest, Refused, Reply

_LOG = logging.getLogger(__name__)
_BACKLOG = 2048
_END_SECONDS = 5
_POLLS = 20
"""Of the event loop; from a socket's end to `Line.leave` it takes less than ten."""
MOST_BYTES = 32 * 2**20
"""Of a request."""

DIALECTS: tuple[Dialect, ...] = (chat, messages, responses)
Answer = Callable[[Request, Dialect], Coroutine[Any, Any, Response]]


class Gateway:
    """Serves the lines that are open."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Bind; nothing is served before `start`.

        Raises:
            AgentR1Error: the address is taken, or none of this machine.
        """
        self._begun = int(time.time())
        self._lines: dict[str, Line] = {}
        self._mentioned: set[str] = set()
        """What the log has named: fields without effect, and that a reward was of no episode."""
        self._forwarder = Forwarder()
        self._loop: asyncio.AbstractEventLoop | None = None
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
            self._socket.listen(_BACKLOG)  # whoever asks before the server runs waits
        except OSError as error:
            raise AgentR1Error(
                f"the gateway cannot listen at {host}:{port} ({error.strerror}); name another host or port"
            ) from error
        shown = f"[{host}]" if family == socket.AF_INET6 else host
        self.address = f"http://{shown}:{self._socket.getsockname()[1]}"
        """What a client of Anthropic's API calls its base address; clients of OpenAI's API add `/v1`."""
        config = uvicorn.Config(self.app(), log_level="warning", access_log=False, lifespan="off", backlog=_BACKLOG)
        self._server = uvicorn.Server(config)

    def start(self) -> None:
        """Serve in a thread, until Python ends."""
        run = partial(self._server.run, sockets=[self._socket])
        thread = threading.Thread(target=run, name="agent-r1 gateway", daemon=True)
        thread.start()
        atexit.register(self._end, thread)

    def _end(self, thread: threading.Thread) -> None:
        """uvloop's timers call Python without asking whether it is still there: a crash at the end of the process."""
        self._server.should_exit = self._server.force_exit = True
        thread.join(_END_SECONDS)

    def open(self, line: Line) -> None:
        """Let a program in, by the line's key."""
        self._lines[line.key] = line

    def close(self, line: Line, sentence: str) -> None:
        """Refuse everything that still comes with the line's key, with this sentence."""
        line.close(sentence)
        self._lines.pop(line.key, None)

    async def look(self) -> None:
        """Come back when the server has seen which clients have left by now."""
        if self._loop is not None:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_poll(), self._loop))

    def app(self) -> Starlette:
        """The application; it has the routes of every dialect."""
        routes = [Route(path, self._reward, methods=["POST"]) for path in ("/reward", "/v1/reward")]
        routes += [Route(f"/v1/models{one}", self._answering(chat, self._models)) for one in ("", "/{model:path}")]
        for dialect in DIALECTS:
            routes += [Route(path, self._answering(dialect, self._ask), methods=["POST"]) for path in dialect.PATHS]
        counting = self._answering(messages, self._count)
        routes += [Route(f"{path}/count_tokens", counting, methods=["POST"]) for path in messages.PATHS]
        unknown = self._answering(chat, self._unknown)
        return Starlette(routes=routes, exception_handlers={404: unknown, 405: unknown})

    def _answering(self, dialect: Dialect, answer: Answer) -> Callable[..., Coroutine[Any, Any, Response]]:
        """An endpoint that says in the dialect's own format why it refuses."""

        async def endpoint(request: Request, *_: Exception) -> Response:
            try:
                return await answer(request, dialect)
            except ClientDisconnect:
                return Response(status_code=499)
            except Refused as refused:
                if line := self._lines.get(_key(request)):
                    line.refused = str(refused)
                return JSONResponse(dialect.error(refused), refused.status)
            except Exception as error:
                _LOG.exception("the gateway failed at a request")
                broken = Refused(f"the gateway failed with {describe_error(error)}", 500, "api_error")
                return JSONResponse(dialect.error(broken), 500)

        return endpoint

    async def _ask(self, request: Request, dialect: Dialect) -> Response:
        line, self._loop = self._line(request), asyncio.get_running_loop()
        raw = await _read(request)
        body = _object(raw)
        elsewhere = line.elsewhere(str(body.get("model")))
        if elsewhere is not None:
            return await self._forwarder.send(request, raw, elsewhere)
        if dialect is responses:
            body = responses.recall(body, partial(line.answered, responses.NAME))
        asked_for = dialect.read(body)
        self._mention(asked_for, dialect)
        asked = line.ask(asked_for, dialect.NAME, request.headers)
        try:
            reply = await _unless_left(request, asked)
        finally:
            line.leave(asked)
        if not asked_for.stream:
            return JSONResponse(dialect.write(reply, asked_for))
        return StreamingResponse(_stream(dialect, reply, asked_for), media_type="text/event-stream")

    async def _count(self, request: Request, dialect: Dialect) -> Response:
        """An estimate by characters: the server knows no tokenizer."""
        self._line(request)
        asked_for = messages.count(_object(await _read(request)))
        characters = sum(len(message.text) for message in asked_for.messages) + len(json.dumps(asked_for.tools))
        return JSONResponse({"input_tokens": characters // 4 + 1})

    async def _reward(self, request: Request) -> Response:
        line = self._lines.get(_key(request))
        try:
            body = _object(await _read(request))
            self._line(request).reward(body.pop("reward", None), *body)
        except Refused as refused:
            if line is not None:
                line.unrewarded = str(refused)
            elif "reward" not in self._mentioned:
                self._mentioned.add("reward")
                _LOG.warning("a reward counts for no episode: %s", refused)
            return JSONResponse({"error": {"message": str(refused)}}, refused.status)
        return Response(status_code=204)

    async def _models(self, request: Request, dialect: Dialect) -> Response:
        self._line(request)
        asked = request.path_params.get("model")
        model = {"id": asked or "policy", "object": "model", "created": self._begun, "owned_by": "agent-r1"}
        return JSONResponse(model if asked else {"object": "list", "data": [model]})

    async def _unknown(self, request: Request, dialect: Dialect) -> Response:
        raise Refused(
            f"the gateway has no {request.method} {request.url.path:.80}, but POST of /v1/chat/completions, "
            "/v1/messages and /v1/responses; ask another server for anything else",
            404,
            "not_found_error",
        )

    def _line(self, request: Request) -> Line:
        line = self._lines.get(_key(request))
        if line is None:
            sentence = "nobody here has this API key, or its episode has ended; use the key that you were given"
            raise Refused(sentence, 401, "authentication_error")
        return line

    def _mention(self, request: ChatRequest, dialect: Dialect) -> None:
        """Log each field without effect once."""
        fields = {name: f"{dialect.NAME} {name}" for name in request.ignored}
        if new := [name for name, field in fields.items() if field not in self._mentioned]:
            self._mentioned.update(fields.values())
            _LOG.warning("requests to %s set what has no effect here: %s", dialect.NAME, ", ".join(new))


def _key(request: Request) -> str:
    given = request.headers.get("x-api-key") or request.headers.get("authorization", "")
    scheme, _, key = given.strip().partition(" ")
    return key.strip() if scheme.lower() == "bearer" else given.strip()


async def _read(request: Request) -> bytes:
    """The body of a request, within bounds."""
    pieces, size = list[bytes](), 0
    async for piece in request.stream():
        size += len(piece)
        if size > MOST_BYTES:
            raise Refused(f"the request has more than {MOST_BYTES} bytes; send less", 413, "request_too_large")
        pieces.append(piece)
    return b"".join(pieces)


def _object(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Refused(f"the body is not JSON ({error}); send a JSON object") from None
    if not isinstance(body, dict):
        raise Refused("the body is JSON, but no object; send an object")
    return body


async def _unless_left(request: Request, asked: Asked) -> Reply:
    """The reply; raises ClientDisconnect when the client leaves before."""
    waiting = asyncio.ensure_future(asked.wait())
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            raise ClientDisconnect
        return waiting.result()
    finally:
        for task in (waiting, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError, Refused):
                await task


async def _poll() -> None:
    """Give way until what waits at the sockets has reached whoever waits for it."""
    for _ in range(_POLLS):
        await asyncio.sleep(0)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _stream(dialect: Dialect, reply: Reply, request: ChatRequest) -> AsyncIterator[str]:
    for name, data in dialect.events(reply, request):
        head = f"event: {name}\n" if name is not None else ""
        text = data if isinstance(data, str) else json.dumps(data)
        yield f"{head}data: {text}\n\n"


_shared: Gateway | None = None
_starting = threading.Lock()


def shared_gateway() -> Gateway:
    """The gateway of this process, on the loopback address; started when it is first asked for."""
    global _shared
    with _starting:
        if _shared is None:
            _shared = Gateway()
            _shared.start()
        return _shared
