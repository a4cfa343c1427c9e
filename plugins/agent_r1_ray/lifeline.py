"""Lifeline: watches the two services of Ray without which this process cannot go on.

Ray ends a process that has lost its raylet at once, and one that has lost its GCS after a minute: from C++, without an
exception, so that nothing can be written or said any more. A connection is therefore held to each; when it breaks and
the next ones are refused, the service is told as lost, and the process ends before Ray ends it, with all that it has
started. The GCS of a cluster that was joined may be started again in that minute. A machine that vanishes refuses
nothing, so its loss is Ray's to tell. Beside a process with a Ray of its own another one stands by, for Ray may be
faster.
"""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping

import ray

from agent_r1_ray import left_behind

_PERIOD = 1.0
"""Seconds that connecting may take, and until it is tried again."""
_RESTART_SECONDS = 50.0
"""How long a GCS that others look after may refuse connections; Ray gives it 60."""


class Lifeline:
    """Watches until it is closed."""

    def __init__(self, lost: Callable[[str], None], learning: bool, mark: str | None) -> None:
        """Begin to watch the services of the Ray that this process is connected to.

        Args:
            lost: told in one sentence, in a thread, when one is lost; then the process ends with status 1.
            learning: whether this is a training, which can be resumed.
            mark: the value of `left_behind.MARK` for all that this Ray has started; None for a Ray that was there
                before, so that somebody may start its GCS again.
        """
        self._lost = lost
        self._advice = (
            "workers and the steps since the newest checkpoint; continue with --resume"
            if learning
            else "workers; start the command again"
        )
        self._mark, self._first = mark, left_behind.below(os.getpid())
        self._closing, self._closed = socket.socketpair()
        here = ray.get_runtime_context().get_node_id()
        node = next(node for node in ray.nodes() if node["NodeID"] == here)
        store, raylet = "the control store of Ray (GCS)", "the raylet of this machine"
        services = {
            store: ray.get_runtime_context().gcs_address,
            raylet: f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}",
        }
        self._other = None
        if mark is not None:
            sentence = f"the process was killed, or lost {raylet} at {services[raylet]}, and with it all {self._advice}"
            self._other = left_behind.stand_by(services[raylet], mark, sentence)
        self._patience = {store: 0.0 if mark else _RESTART_SECONDS, raylet: 0.0}
        self._thread = threading.Thread(target=self._watch, args=(services,), name="agent-r1-lifeline", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Watch no more: Ray is to end."""
        self._closing.close()
        self._thread.join()
        if self._other is not None:
            self._other.kill()
            self._other.wait()

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
            if self._other is not None and self._other.stdin is not None:
                self._other.stdin.write(b"told")
                self._other.stdin.flush()
        finally:
            left_behind.end({**self._first, **left_behind.below(os.getpid())}, self._mark)
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
