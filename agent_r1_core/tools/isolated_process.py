"""ToolProcess: a process of an isolated tool, and the connection to it, on the event loop.

Every call has a random id, which its reply repeats. Whatever else arrives means that the process can no longer be
trusted to answer the call that it was asked: it is broken, and its owner kills it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from typing import Any

from agent_r1_core.contracts.json_text import longest_json
from agent_r1_core.contracts.tool import Tool
from agent_r1_core.errors import ConfigError, ToolError
from agent_r1_core.plugins.sources import imported_content
from agent_r1_core.tools import isolated_keeper
from agent_r1_core.tools.isolated_messages import CLOSE_SECONDS, HEADER, ID_BYTES, decode, encode, frame
from agent_r1_core.tools.threads import CallTimeout, ThreadPool

START_SECONDS = 300.0
"""Time for a process to import and open the tool."""
_REAP_SECONDS = 5.0
"""Time for a killed process to be gone."""

DIED = "its process died"
OUT_OF_TURN = "its process answered out of turn"


def describe_target(tool: Tool) -> dict[str, Any]:
    """Where another process finds the tool, and its configuration.

    Raises:
        ConfigError: the tool cannot be imported by name.
    """
    cls = type(tool)
    module = sys.modules.get(cls.__module__)
    target: Any = module
    for part in cls.__qualname__.split("."):
        target = getattr(target, part, None)
    if target is not cls or cls.__module__ == "__main__":
        raise ConfigError(
            f"tool {tool.name} is defined in {cls.__module__}.{cls.__qualname__}, where no other process finds it; "
            "move it into a module, or set its isolation to thread"
        )
    content = imported_content(module)
    return {
        "module": cls.__module__,
        "file": getattr(module, "__file__", None),
        "content": None if content is None else b2a_base64(content, newline=False).decode(),
        "qualname": cls.__qualname__,
        "name": tool.name,
        "config": tool.config.model_dump(mode="json"),
    }


class Connection(asyncio.Protocol):
    """Sends one call at a time and takes its reply."""

    def __init__(self, memory: int, on_broken: Callable[[], None]) -> None:
        """A reply may take `memory` bytes of memory; `on_broken` is called once, when the connection breaks."""
        self.broken = ""
        """Why it broke; empty while it has not."""
        self._longest = longest_json(memory)
        self._on_broken = on_broken
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._call = b""
        """Id of the call under way; empty: none is."""
        self._reply: asyncio.Future[bytes] | None = None

    async def exchange(self, body: bytes, timeout: float) -> bytes:
        """Send a message and wait for its reply.

        Raises:
            CallTimeout: no reply came in time.
            RuntimeError: the process died, or answered something else.
        """
        packed = frame(call := os.urandom(ID_BYTES), body)
        if self.broken or self._transport is None:
            raise RuntimeError(self.broken or DIED)
        self._call, self._reply = call, asyncio.get_running_loop().create_future()
        self._transport.write(packed)
        try:
            async with asyncio.timeout(timeout):
                return await self._reply
        except TimeoutError:
            raise CallTimeout from None
        finally:
            self._call, self._reply = b"", None

    def close(self) -> None:
        self._break(DIED)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._break(DIED)

    def data_received(self, data: bytes) -> None:
        """Collect the reply to the call under way; anything else breaks the connection."""
        self._received += data
        if self._reply is None or self._reply.done():
            return self._break(OUT_OF_TURN)
        if len(self._received) < HEADER.size:
            return None
        call, length = HEADER.unpack_from(self._received)
        whole = HEADER.size + length
        if call != self._call or length > self._longest or len(self._received) > whole:
            return self._break(OUT_OF_TURN)
        if len(self._received) == whole:
            self._reply.set_result(bytes(self._received[HEADER.size :]))
            self._received.clear()
        return None

    def _break(self, why: str) -> None:
        if self.broken:
            return
        self.broken = why
        if self._transport is not None:
            self._transport.abort()
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(RuntimeError(why))
        self._on_broken()


class ToolProcess:
    """One process that serves one tool."""

    def __init__(self, process: subprocess.Popen[bytes], connection: Connection) -> None:
        """`process` is its keeper; see `isolated_keeper`."""
        self.facts: dict[str, Any] | None = None
        """What the opened tool says about itself."""
        self._process = process
        assert process.stdin is not None
        self._orders = process.stdin
        self.connection = connection

    @classmethod
    async def start(
        cls, hello: Mapping[str, Any], threads: ThreadPool, on_broken: Callable[[ToolProcess], None]
    ) -> ToolProcess:
        """Start a process and let it open the tool.

        Args:
            hello: the first message: the tool, its resources, its limits, and the memory that a message may take.
            on_broken: called when the process dies, or answers out of turn.

        Raises:
            ToolError: it cannot be opened.
        """
        name = hello["target"]["name"]
        here, there = socket.socketpair()
        try:
            process: subprocess.Popen[bytes] = await threads.run(lambda: _popen(there))
        except OSError as error:
            raise ToolError(f"no process can be started for tool {name} ({error}); free memory or processes") from error
        connection = Connection(hello["memory"], lambda: on_broken(started))
        started = cls(process, connection)
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: connection, sock=here)
            ready = decode(await connection.exchange(encode(hello), START_SECONDS), hello["memory"])
            if ready["error"]:
                raise ToolError(ready["error"])
        except BaseException as error:
            started.kill()
            await threads.run(started.reap)
            if isinstance(error, CallTimeout):
                text = f"tool {name} did not open within {START_SECONDS:g} seconds; check its open()"
                raise ToolError(text) from None
            if isinstance(error, RuntimeError):
                raise ToolError(f"tool {name} cannot be opened: {error}; check its open() and its limits") from error
            raise
        started.facts = ready["facts"]
        return started

    def kill(self) -> None:
        """End the process and all that it left running; call `reap` next."""
        with contextlib.suppress(OSError):  # they have ended already
            self._orders.write(b"x")
        self.connection.close()

    def reap(self) -> None:
        """Wait until the killed process is gone."""
        try:
            self._process.wait(_REAP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()  # the keeper itself, whose process the system then ends
        self._orders.close()

    def wait_for_end(self) -> None:
        """Wait until the process, whose connection was closed, has closed its tool; kill it if that takes too long."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_SECONDS + _REAP_SECONDS)
        self.kill()
        self.reap()


def _popen(connection: socket.socket) -> subprocess.Popen[bytes]:
    """The keeper of a new process, which takes over the connection; what the tool prints goes to stderr."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    keeper = [sys.executable, "-I", "-S", isolated_keeper.__file__, str(2 * CLOSE_SECONDS), str(connection.fileno())]
    with connection:
        return subprocess.Popen(
            [*keeper, "-P", "-m", "agent_r1_core.tools.isolated_worker"],
            bufsize=0,
            pass_fds=[connection.fileno()],
            stdin=subprocess.PIPE,
            stdout=2,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
