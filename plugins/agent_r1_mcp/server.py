"""Server: connects to an MCP server, and again when it died or hangs, within bounds."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from agent_r1_core import ToolError
from agent_r1_mcp.session import Connection

_LONGEST_PAUSE = 60.0
"""Seconds between two starts, after starts and connections that were of no use."""
_PROBE_SECONDS = 2.0
"""In which a server that let a call's time run out must list its tools."""

_LOG = logging.getLogger(__name__)


class Away(ToolError):
    """The server did not answer."""


class Server:
    """Used in one event loop."""

    def __init__(self, name: str, connect: Callable[[], Connection]) -> None:
        """Connect at the first call; messages name the server."""
        self._name = name
        self._connect = connect
        self._connection: Connection | None = None
        self._useless = 0
        """Connections in a row that answered nothing."""
        self._next = 0.0
        """`time.monotonic()` before which there is no new connection."""
        self._lost = False
        self._background: set[asyncio.Task[None]] = set()

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The result of a call.

        Raises:
            Away: the server is away, or ended during the call.
            ToolError: it refused the call.
        """
        connection = self._connected()
        answered = connection.answered
        try:
            result = await connection.call(tool, arguments)
        except asyncio.CancelledError:
            self._in_background(self._probe(connection, answered))
            raise
        except ConnectionError as error:
            self._lose(connection, str(error))
            raise Away(f"the server of {tool} ended before it answered; it is tried again") from None
        except Exception as error:
            raise ToolError(f"the server refused the call: {error}") from None
        if self._lost:
            self._lost = False
            _LOG.warning("the MCP server %s answers again", self._name)
        return result

    async def tools(self) -> list[dict[str, Any]]:
        """What the server offers; a ConnectionError where it does not start."""
        return await self._connected().tools()

    async def close(self) -> None:
        """Leave, and wait until the process has ended."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.leave()
        if self._background:
            await asyncio.wait(self._background)

    def _connected(self) -> Connection:
        if self._connection is not None and self._connection.ended:
            self._lose(self._connection, "its connection ended")
        if self._connection is None:
            if time.monotonic() < self._next:
                raise Away("the server is away; go on without it, or try again later")
            self._connection = self._connect()
        return self._connection

    def _lose(self, connection: Connection, why: str) -> None:
        """Give a connection up, once. One that answered is replaced at once, others at a later call, ever later."""
        if connection is not self._connection:
            return
        self._useless = 0 if connection.answered else self._useless + 1
        self._next = time.monotonic() + min(2.0**self._useless, _LONGEST_PAUSE)
        self._connection = None if self._useless else self._connect()
        if not self._lost:
            self._lost = True
            _LOG.warning("the MCP server %s is away (%s); it is tried again", self._name, why)
        self._in_background(connection.leave())

    async def _probe(self, connection: Connection, answered: int) -> None:
        """Give a connection up on which nothing was answered since a call began, and not even its tools are listed now.

        A call that is answered while this waits shows that the server lives; a later one that hangs has its own probe.
        """
        if not connection.started or connection.ended or connection.answered > answered:
            return
        try:
            await asyncio.wait_for(connection.tools(), _PROBE_SECONDS)
        except Exception:
            if connection.answered == answered:
                self._lose(connection, "it hangs")

    def _in_background(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
