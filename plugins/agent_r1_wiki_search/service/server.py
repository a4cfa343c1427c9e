"""Runs the service until a signal ends it: SIGTERM and Ctrl-C let it finish what it has accepted.

A second signal, or the end of the grace, ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from agent_r1_core import AgentR1Error, ConfigError
from agent_r1_wiki_search.searcher import Searcher
from agent_r1_wiki_search.service.app import build_app
from agent_r1_wiki_search.service.batching import BatchLimits
from agent_r1_wiki_search.service.service import Service

_CONNECTIONS = 2048
"""That wait to be accepted."""
_READING_SECONDS = 2
"""For clients to take the last answers."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 is any free one.

    Raises:
        ConfigError: the address cannot be used.
    """
    opened: socket.socket | None = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, where = found[0]
        opened = socket.socket(family, kind, protocol)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(where)
        opened.listen(_CONNECTIONS)
    except OSError as error:
        if opened is not None:
            opened.close()
        raise ConfigError(
            f"the service cannot listen on port {port} of {host} ({error.strerror or error}); "
            "give another --port (0: any free one) or --host"
        ) from error
    return opened


def url_of(listening: socket.socket) -> str:
    """The URL of a service on this socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_service(
    load: Callable[[], Searcher],
    listening: socket.socket,
    limits: BatchLimits,
    grace: float,
    on_ready: Callable[[Service], None],
    names: Collection[str] = (),
) -> int:
    """Serve until a signal comes; returns the signal.

    Args:
        load: opens the searcher, in a thread, while /health already answers.
        listening: where requests come from; it is closed at the end.
        limits: bounds of batches and of the queue.
        grace: seconds for what was accepted before the signal.
        on_ready: called once, when searches are answered.
        names: by which clients may ask, beside addresses, localhost and the name of this machine.

    Raises:
        AgentR1Error: the grace, or a second signal, ended it before everything was answered.
        Exception: the searcher cannot be loaded.
    """
    server = _Server(Service(load, limits), grace, on_ready, [socket.gethostname(), *names])
    try:
        server.run(sockets=[listening])
    finally:
        listening.close()
    if server.failure is not None:
        raise server.failure
    if server.cut:
        raise AgentR1Error(f"the service ended before {server.cut} queries that it had accepted were answered")
    return server.signal


class _Server(uvicorn.Server):
    """Answers health checks while the searcher is loaded, and drains at a signal."""

    def __init__(
        self, service: Service, grace: float, on_ready: Callable[[Service], None], names: Collection[str]
    ) -> None:
        self.failure: Exception | None = None
        """Why the searcher could not be loaded."""
        self.signal = 0
        """The signal that ended the service."""
        self.cut = 0
        """Queries that were accepted and are not answered."""
        self._service = service
        self._grace = grace
        self._on_ready = on_ready
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._answering = asyncio.Event()
        app = build_app(service, names)
        app.router.lifespan_context = self._lifespan
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="on",
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_READING_SECONDS,
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain; at a second signal, end at once. Called by uvicorn's signal handler."""
        again, self.signal = bool(self.signal), self.signal or sig
        if self._loop is None:
            self.should_exit = True
        elif again:
            self._loop.call_soon_threadsafe(self._cut)
        else:
            self._loop.call_soon_threadsafe(lambda: self._start(self._drain()))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._answering.set()

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        self._loop = asyncio.get_running_loop()
        self._start(self._load())
        try:
            yield
        finally:
            await self._service.close(0.0 if self.cut else self._grace)

    async def _load(self) -> None:
        try:
            await self._service.load()
            await self._answering.wait()
            self._on_ready(self._service)
        except Exception as error:
            self.failure = error
            self.should_exit = True

    async def _drain(self) -> None:
        try:
            await asyncio.wait_for(self._service.stop(), self._grace)
        except TimeoutError:
            self._cut()
        self.should_exit = True

    def _cut(self) -> None:
        self.cut += self._service.cut()
        self.should_exit = True

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
