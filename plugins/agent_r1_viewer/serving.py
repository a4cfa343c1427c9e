"""Serves the viewer on this machine until a signal ends it; open pages do not hold it up."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from agent_r1_core.errors import RunError
from agent_r1_core.runs.reading.found_runs import FoundRuns
from agent_r1_viewer.answers import Answers
from agent_r1_viewer.app import build
from agent_r1_viewer.live import Live
from agent_r1_viewer.remarks import Remarks

HOST = "127.0.0.1"
PORT = 8700
_TRIED = 100
"""Ports after the first one that are tried."""


class Viewer(uvicorn.Server):
    """The server of the viewer."""

    def __init__(self, found: FoundRuns, token: str, ready: Callable[[], None] | None = None) -> None:
        """Prepare to serve.

        Args:
            found: the runs.
            token: who has it may see them.
            ready: is called when the page can be opened.
        """
        answers = Answers(found, Remarks())
        self.live = Live(answers.runs)
        self._ready = ready
        app = build(answers, self.live, token)
        config = uvicorn.Config(
            app, log_level="critical", access_log=False, server_header=False, lifespan="on",
            timeout_graceful_shutdown=1, ws="none", http="h11", loop="asyncio",
        )  # fmt: skip
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve, and say so."""
        await super().startup(sockets)
        if self._ready is not None and self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop serving; pages that listen for news are sent away first."""
        self.live.close()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at the first signal; the second one waits for nothing."""
        self.force_exit, self.should_exit = self.should_exit, True


def listen(port: int | None) -> socket.socket:
    """A socket on this machine.

    Args:
        port: None takes the first free one from `PORT` on.

    Raises:
        RunError: the port is taken, or none is free.
    """
    for tried in [port] if port is not None else range(PORT, PORT + _TRIED):
        # Without the protocol's number asyncio lets every answer wait 40 ms for the browser (Nagle's algorithm).
        opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((HOST, tried))
            opened.listen()  # a port that is only bound can be bound again
            return opened
        except OSError as error:
            opened.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            reason = error.strerror
    if port is not None:
        raise RunError(f"port {port} cannot be used ({reason}); choose another --port, or none to take a free one")
    raise RunError(f"no port from {PORT} to {PORT + _TRIED - 1} is free; choose one with --port")


def serve(found: FoundRuns, opened: socket.socket, token: str, ready: Callable[[], None]) -> None:
    """Serve those who have the token until Ctrl-C or SIGTERM."""
    with contextlib.suppress(KeyboardInterrupt), contextlib.closing(opened):
        Viewer(found, token, ready).run(sockets=[opened])
