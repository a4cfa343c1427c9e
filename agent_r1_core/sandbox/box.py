"""Box: a program in a sandbox, and the messages between it and us. Whatever it does costs bounded time and memory here.

A message is four bytes of its length, then so many bytes. The guest reads requests from its standard input, and answers
each on its standard output. `find_backend` says what can hold a box on this machine, by trying it.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib.util import find_spec

from agent_r1_core.errors import ConfigError
from agent_r1_core.sandbox.backends import BACKENDS, Backend, Bounds

_STARTER = ThreadPoolExecutor(1, "agent-r1-sandbox")
"""Starts every box: a guest dies with the thread that started it, and this one lives as long as the process."""

_PROBE = "import os; os.read(0, 4); os.write(1, bytes(4))"
"""A guest that gives one empty answer."""


class BoxTimeout(Exception):
    """The guest did not answer in time; the box is gone."""


class BoxEnded(Exception):
    """The guest ended, or sent something that is no answer; the box is gone."""


class Box:
    """One guest, which answers one request after the other. It may be killed from any thread."""

    def __init__(self, backend: Backend, program: str, bounds: Bounds) -> None:
        """Start the Python source `program`; an OSError where the command cannot be started."""
        command, options = backend.command(program, bounds)
        pipe = subprocess.PIPE

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True, **options
            )

        self._process = _STARTER.submit(start).result()
        self._lock = threading.RLock()
        """Held in `exchange`: only then are the pipes closed, or their numbers might mean other files."""
        files = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._pipes = [file for file in files if file is not None]
        for file in self._pipes:
            os.set_blocking(file.fileno(), False)

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def exchange(self, request: bytes, seconds: float, most: int) -> bytes:
        """Send a request and return its answer of at most `most` bytes.

        Raises:
            BoxTimeout: it took more than `seconds`.
            BoxEnded: there is no such answer.
        """
        with self._lock:
            try:
                return self._exchange(request, time.monotonic() + seconds, most)
            except (BoxTimeout, BoxEnded):
                self.kill()
                raise
            except (OSError, ValueError) as error:  # a pipe broke, or `kill` closed it before
                why = self._last_words() or "the program in the sandbox ended"
                self.kill()
                raise BoxEnded(why) from error

    def kill(self) -> None:
        """Kill the guest and everything that it started."""
        with suppress(ProcessLookupError):
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
        with self._lock:
            self._process.wait()
            for file in self._pipes:
                file.close()

    def _exchange(self, request: bytes, deadline: float, most: int) -> bytes:
        self._write(len(request).to_bytes(4, "big") + request, deadline)
        size = int.from_bytes(self._read(4, deadline), "big")
        if size > most:
            raise BoxEnded(f"an answer of {size} bytes is too long")
        return self._read(size, deadline)

    def _write(self, data: bytes, deadline: float) -> None:
        while data:
            self._wait(0, select.POLLOUT, deadline)
            data = data[os.write(self._pipes[0].fileno(), data[: 1 << 16]) :]

    def _read(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._wait(1, select.POLLIN, deadline)
            piece = os.read(self._pipes[1].fileno(), min(size - len(data), 1 << 16))
            if not piece:
                raise OSError("end of file")
            data += piece
        return bytes(data)

    def _wait(self, pipe: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._pipes[pipe].fileno(), event)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise BoxTimeout

    def _last_words(self) -> str:
        """The last line that the command wrote to its standard error."""
        with suppress(OSError, ValueError, subprocess.TimeoutExpired):
            self._process.wait(0.5)
            lines = os.read(self._pipes[2].fileno(), 1 << 12).decode(errors="replace").strip().splitlines()
            return lines[-1][:300] if lines else ""
        return ""


class EpisodeBox:
    """The box of one episode: started when it is needed, and anew after it was lost, until it is closed."""

    def __init__(self, start: Callable[[], Box]) -> None:
        self._start = start
        self._box: Box | None = None
        self._closed = False
        self._lock = threading.Lock()

    def exchange(self, request: bytes, seconds: float, most: int) -> bytes:
        """As `Box.exchange`; a BoxEnded once it is closed."""
        with self._lock:
            if self._closed:
                raise BoxEnded("the episode is over")
            self._box = box = self._box or self._start()
        try:
            return box.exchange(request, seconds, most)
        except (BoxTimeout, BoxEnded):
            self._box = None
            raise

    def lose(self) -> None:
        """Kill the guest."""
        with self._lock:
            box, self._box = self._box, None
        if box is not None:
            box.kill()

    def close(self) -> None:
        """Kill the guest, and start no other."""
        self._closed = True
        self.lose()


def find_backend(name: str = "auto", writable: bool = False) -> Backend:
    """The first backend that works here, or the named one.

    Args:
        name: `auto`, `bubblewrap` or `sandlock`.
        writable: only one whose guests have folders to write to.

    Raises:
        ConfigError: there is none of this name, or none works here; the sentence says why, and what to install.
    """
    if name not in ("auto", *BACKENDS):
        raise ConfigError(f"there is no sandbox {name!r}; use auto, {' or '.join(BACKENDS)}")
    problems = []
    for backend in BACKENDS.values() if name == "auto" else [BACKENDS[name]]:
        problem = "its guests have no folder to write to" if writable > backend.writable else problem_of(backend)
        if problem is None:
            return backend
        problems.append(f"{backend.name}: {problem}")
    raise ConfigError(
        f"there is no sandbox here ({'; '.join(problems)}); install bubblewrap (apt-get install bubblewrap) where user "
        "namespaces are allowed, or else sandlock (pip install 'agent-r1[sandbox]') on Linux 6.12 or newer"
    )


@cache
def problem_of(backend: Backend) -> str | None:
    """Why a backend does not work here; None if it does. Asked once in a process."""
    if sys.platform != "linux":
        return "needs Linux"
    if backend.name == "bubblewrap" and shutil.which("bwrap") is None:
        return "not installed"
    if backend.name == "sandlock" and find_spec("sandlock") is None:
        return "not installed"
    try:
        with Box(backend, _PROBE, Bounds()) as box:
            box.exchange(b"", seconds=20, most=1 << 10)
    except (BoxEnded, BoxTimeout, OSError) as error:
        return str(error) or type(error).__name__
    return None
