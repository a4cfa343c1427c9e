"""Lifeline: watches the two services of Ray without which this process cannot go on.

Ray ends a process that has lost its raylet at once, and one that has lost its GCS after a minute: from C++, without an
exception, so that nothing can be written or said any more. A connection is therefore held to each; when it breaks and
the next ones are refused, the service is told as lost, and the process ends before Ray ends it, with all that it has
started. The GCS of a cluster that was joined may be started again in that minute. A machine that vanishes refuses
nothing, so its loss is Ray's to tell.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import ray

_PERIOD = 1.0
"""Seconds that connecting may take, and until it is tried again."""
_RESTART_SECONDS = 50.0
"""How long a GCS that others look after may refuse connections; Ray gives it 60."""
MARK = "AGENT_R1_RAY"
"""An environment variable that all inherit that a local Ray starts, so that what a dead raylet leaves behind is known.
Ray's agents write their titles over it; they are there before anything else."""


class Lifeline:
    """Watches until it is closed."""

    def __init__(self, lost: Callable[[str], None], learning: bool, mark: str | None) -> None:
        """Begin to watch the services of the Ray that this process is connected to.

        Args:
            lost: told in one sentence, in a thread, when one is lost; then the process ends with status 1.
            learning: whether this is a training, which can be resumed.
            mark: the value of `MARK` for all that this Ray has started; None for a Ray that was there before, so that
                somebody may start its GCS again.
        """
        self._lost = lost
        self._advice = (
            "workers and the steps since the newest checkpoint; continue with --resume"
            if learning
            else "workers; start the command again"
        )
        self._mark, self._first = mark, _below(os.getpid())
        self._closing, self._closed = socket.socketpair()
        here = ray.get_runtime_context().get_node_id()
        node = next(node for node in ray.nodes() if node["NodeID"] == here)
        store, raylet = "the control store of Ray (GCS)", "the raylet of this machine"
        services = {
            store: ray.get_runtime_context().gcs_address,
            raylet: f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}",
        }
        self._patience = {store: 0.0 if mark else _RESTART_SECONDS, raylet: 0.0}
        self._thread = threading.Thread(target=self._watch, args=(services,), name="agent-r1-lifeline", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Watch no more: Ray is to end."""
        self._closing.close()
        self._thread.join()

    def _watch(self, services: Mapping[str, str]) -> None:
        held: dict[str, socket.socket] = {}
        refused: dict[str, float] = {}
        with self._closed, selectors.DefaultSelector() as watched:
            watched.register(self._closed, selectors.EVENT_READ)
            while True:
                for name in services.keys() - held.keys():
                    connection = self._connect(name, services[name], refused)
                    if connection is not None:
                        held[name] = connection
                        watched.register(connection, selectors.EVENT_READ, name)
                changed = [key for key, _ in watched.select(_PERIOD)]
                if any(key.fileobj is self._closed for key in changed):
                    break
                for key in changed:
                    if _is_broken(held[key.data]):
                        watched.unregister(key.fileobj)
                        held.pop(key.data).close()
        for one in held.values():
            one.close()

    def _connect(self, name: str, address: str, refused: dict[str, float]) -> socket.socket | None:
        """A connection to a service, or None; `refused` says since when. End if it has refused for too long."""
        try:
            connection = _connected(address)
        except ConnectionError:
            now = time.monotonic()
            if now - refused.setdefault(name, now) >= self._patience[name]:
                self._end(name, address)
            return None
        except OSError:  # a machine that is slow to answer
            return None
        refused.pop(name, None)
        return connection

    def _end(self, name: str, address: str) -> None:
        try:
            self._lost(f"{name} at {address} is lost, and with it all {self._advice}")
        finally:
            first = {process for process, begun in self._first.items() if _begun(process) == begun}
            for process in first.union(_below(os.getpid()), _marked(self._mark) if self._mark else ()):
                with suppress(OSError):  # it has ended meanwhile, or is another user's
                    os.kill(process, signal.SIGKILL)
            os._exit(1)


def _connected(address: str) -> socket.socket:
    """A connection to HOST:PORT; a ConnectionError says that nobody listens there."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=_PERIOD)


def _is_broken(connection: socket.socket) -> bool:
    """Whether the other side of a readable connection has closed it, as it does when it dies, or is idle for long."""
    try:
        return not connection.recv(4096)
    except OSError:
        return True


def _stat(process: int) -> list[str]:
    """What /proc says of a process, from its state on; empty: it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _begun(process: int) -> str:
    """When a process began, which tells it from a later one of the same number; empty: it has ended."""
    return "".join(_stat(process)[19:20])


def _below(ancestor: int) -> dict[int, str]:
    """The processes that a process has started, and theirs, each with the time at which it began."""
    children: dict[str, list[int]] = {}
    for process in _processes():
        for parent in _stat(process)[1:2]:
            children.setdefault(parent, []).append(process)
    processes = [ancestor]
    for process in processes:  # it grows
        processes += children.get(str(process), [])
    return {process: _begun(process) for process in processes[1:]}


def _processes() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]


def _marked(mark: str) -> set[int]:
    """The processes that began with this mark."""
    entry, found = f"{MARK}={mark}".encode(), set[int]()
    for process in _processes():
        with suppress(OSError):  # it has ended meanwhile, or is another user's
            if entry in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                found.add(process)
    return found
