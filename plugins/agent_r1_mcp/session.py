"""Sessions with MCP servers, over the packages mcp 1.30 and 2.x, which name things differently."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from importlib import import_module
from tempfile import NamedTemporaryFile
from typing import IO, Any

from agent_r1_core.contracts.secrets import Secrets
from agent_r1_mcp.config import McpConfig

CLOSED = (-32000, "Connection closed")
"""Code and message of the package's error that says so; servers have other messages for that code."""
_TOLD = 'echo $$ > "$0" && exec "$@"'
"""Becomes the command; the number of its process is in a file then."""
_numbers = set[IO[str]]()
"""The files with the numbers of the processes that live."""
_PAGES = 100
_CONNECTIONS = 256


@asynccontextmanager
async def session_with(config: McpConfig, secrets: Secrets, stderr: IO[str]) -> AsyncIterator[Any]:
    """A session, which is entered and left by one task; the protocol is the newest that both sides know."""
    import mcp

    # A server that prints to its standard output would fill the user's terminal with tracebacks.
    for name in ("mcp.client", "client"):  # both are the names of its loggers
        logging.getLogger(name).setLevel(logging.CRITICAL)
    async with AsyncExitStack() as stack:
        if config.command:
            transport = _to_command(config, secrets, stderr, stack.enter_context(_group_ends()))
        else:
            transport = await _to_address(config, secrets, stack)
        if hasattr(mcp, "Client"):
            yield (await stack.enter_async_context(mcp.Client(transport, cache=None))).session
        else:
            read, write, *_ = await stack.enter_async_context(transport)
            session = await stack.enter_async_context(mcp.ClientSession(read, write))
            await session.initialize()
            yield session


@contextmanager
def _group_ends() -> Iterator[str]:
    """A file for the number of a process; what is left of its group ends with the context, or with this process."""
    with NamedTemporaryFile("r", prefix="agent-r1-mcp-") as file:
        _numbers.add(file)
        try:
            yield file.name
        finally:
            _numbers.discard(file)
            _end_group(file)


def _end_group(number: IO[str]) -> None:
    with suppress(ValueError, OSError):  # it never began; nothing is left
        os.killpg(int(number.read()), signal.SIGKILL)


@atexit.register
def _end_groups() -> None:
    """Where an impatient interruption kept the contexts from ending."""
    for number in tuple(_numbers):
        _end_group(number)
        number.close()


def _to_command(config: McpConfig, secrets: Secrets, stderr: IO[str], number: str) -> Any:
    from mcp.client.stdio import StdioServerParameters, stdio_client

    env = {name: secrets.values[name] for name in config.env}
    server = StdioServerParameters(
        command="/bin/sh",
        args=["-c", _TOLD, number, *config.command],
        env=env,
        cwd=config.folder,
        encoding_error_handler="replace",
    )
    return stdio_client(server, errlog=stderr)  # type: ignore[arg-type]


async def _to_address(config: McpConfig, secrets: Secrets, stack: AsyncExitStack) -> Any:
    import mcp
    from mcp.client.streamable_http import streamable_http_client

    http = import_module("httpx2" if hasattr(mcp, "Client") else "httpx")
    client = http.AsyncClient(
        headers={name: secrets.fill(value) for name, value in config.headers.items()},
        timeout=http.Timeout(None, connect=5.0),  # a call has a time-out of its own
        limits=http.Limits(max_connections=_CONNECTIONS, keepalive_expiry=2.0),  # servers close idle ones after 5 s
    )
    await stack.enter_async_context(client)
    return streamable_http_client(str(config.url), http_client=client)


async def list_tools(session: Any) -> list[dict[str, Any]]:
    """All tools of the server, as the protocol writes them."""
    from mcp.types import PaginatedRequestParams

    tools: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await session.list_tools(params=None if cursor is None else PaginatedRequestParams(cursor=cursor))
        listed = page.model_dump(by_alias=True, mode="json")
        tools += listed["tools"]
        cursor = listed.get("nextCursor")
        if cursor is None:
            return tools
    raise ValueError(f"it lists its tools on more than {_PAGES} pages")


async def call_tool(session: Any, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The result of a call, as the protocol writes it."""
    import mcp

    more = {"allow_input_required": True} if hasattr(mcp, "Client") else {}
    result = await session.call_tool(name, arguments, **more)
    return dict(result.model_dump(by_alias=True, mode="json"))


def is_closed(error: BaseException) -> bool:
    """Whether an exception says that the connection is gone: any but an answer of the server, or one that is unfit."""
    told = getattr(error, "error", None)
    code, message = (getattr(told, name, None) for name in ("code", "message"))
    if code is not None:
        return (code, message) == CLOSED
    return not isinstance(error, (RuntimeError, ValueError))


class Connection:
    """A session that a task of its own enters and leaves."""

    def __init__(self, config: McpConfig, secrets: Secrets, stderr: IO[str], starting: asyncio.Semaphore) -> None:
        """Begin to connect."""
        self.answered = 0
        """Requests that were answered."""
        self._leaving = asyncio.Event()
        self._seconds = config.start_timeout
        self._limit: asyncio.Timeout | None = None
        """Of the start, while it lasts."""
        self._session: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep(config, secrets, stderr, starting))

    @property
    def started(self) -> bool:
        return self._session.done()

    @property
    def ended(self) -> bool:
        return self._leaving.is_set() or self._task.done()

    async def tools(self) -> list[dict[str, Any]]:
        """As `list_tools`; raises as `call`, and a ConnectionError where they are not listed in time."""
        await asyncio.shield(self._session)
        try:
            listed: list[dict[str, Any]] = await asyncio.wait_for(self._ask(list_tools), self._seconds)
        except TimeoutError:
            raise ConnectionError(f"it has not listed its tools {self._in_time}") from None
        return listed

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """As `call_tool`.

        Raises:
            ConnectionError: there is no connection, or it ended before the answer.
            Exception: the server answered with an error.
        """
        result: dict[str, Any] = await self._ask(call_tool, name, arguments)
        return result

    async def leave(self) -> None:
        """End the session, and the command's process."""
        self._leaving.set()
        # A start that is cancelled twice, by the time-out and here, would leave the process and wait for its end.
        if not self._session.done() and not (self._limit is not None and self._limit.expired()):
            if self._limit is not None:
                self._limit.reschedule(None)
            self._task.cancel()
        await asyncio.wait({self._task})

    async def _ask(self, function: Any, *arguments: Any) -> Any:
        session = await asyncio.shield(self._session)
        asking = asyncio.ensure_future(function(session, *arguments))
        try:
            await asyncio.wait({asking, self._task}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise ConnectionError("the connection ended")
            try:
                answer = asking.result()
            except Exception as error:
                if is_closed(error):
                    raise ConnectionError(str(error) or type(error).__name__) from None
                self.answered += 1
                raise
        finally:
            asking.cancel()
        self.answered += 1
        return answer

    async def _keep(self, config: McpConfig, secrets: Secrets, stderr: IO[str], starting: asyncio.Semaphore) -> None:
        try:
            async with AsyncExitStack() as stack:
                async with starting, asyncio.timeout(self._seconds) as self._limit:
                    session = await stack.enter_async_context(session_with(config, secrets, stderr))
                self._session.set_result(session)
                await self._leaving.wait()
        except BaseException as error:
            if not self._session.done():
                self._session.set_exception(ConnectionError(self._why(error)))
                self._session.exception()  # nobody may be waiting

    def _why(self, error: BaseException) -> str:
        """What went wrong first, of a group of exceptions."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, TimeoutError):
            return f"it did not start {self._in_time}"
        return f"{type(error).__name__}: {error}".rstrip(": ")

    @property
    def _in_time(self) -> str:
        return f"within {self._seconds:g} seconds (start_timeout)"
