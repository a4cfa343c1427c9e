"""Servers for tests and benchmarks: an application on a thread of its own, and a program at a port."""

from __future__ import annotations

import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn


@contextmanager
def served(application: Any) -> Iterator[str]:
    """The address of a server on a thread of its own."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = server.force_exit = True
    thread.join()


def free_port() -> int:
    """One that no outgoing connection takes before the server does: Linux gives those from 32768 on."""
    while True:
        with suppress(OSError), socket.create_server(("127.0.0.1", 10_000 + secrets.randbelow(20_000))) as free:
            return int(free.getsockname()[1])


@contextmanager
def serving(command: Sequence[Any], port: int, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A program, once it answers at its port; a busy machine has two minutes for it."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([str(word) for word in command], **quiet, **options)  # type: ignore[call-overload]
    try:
        late = time.monotonic() + 120
        while not _answers(port):
            assert process.poll() is None, f"the server {command} ended"
            assert time.monotonic() < late, f"the server {command} does not answer"
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
