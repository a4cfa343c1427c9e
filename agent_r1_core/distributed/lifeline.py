"""Lifeline: watches the two services of Ray without which this process cannot go on.

Ray ends a process that has lost its raylet at once, and one that has lost its GCS after a minute: from C++, without an
exception, so that nothing can be written or said any more. A lost service is therefore told as soon as it refuses
connections, and the process ends before Ray ends it, with all that it has started.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import ray

_PERIOD = 0.1
"""Seconds between two looks, and the most that one may take."""


class Lifeline:
    """Watches until it is closed."""

    def __init__(self, lost: Callable[[str], None]) -> None:
        """Begin to watch the services of the Ray that this process is connected to.

        Args:
            lost: told in one sentence, in a thread, when one is lost; then the process ends with status 1.
        """
        self._lost, self._closed = lost, threading.Event()
        here = ray.get_runtime_context().get_node_id()
        node = next(node for node in ray.nodes() if node["NodeID"] == here)
        services = {
            "the control store of Ray (GCS)": ray.get_runtime_context().gcs_address,
            "the raylet of this machine": f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}",
        }
        self._thread = threading.Thread(target=self._watch, args=(services,), name="agent-r1-lifeline", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Watch no more: Ray is to end."""
        self._closed.set()
        self._thread.join()

    def _watch(self, services: Mapping[str, str]) -> None:
        while not self._closed.wait(_PERIOD):
            for name, address in services.items():
                if _refuses(address) and not self._closed.is_set():
                    self._end(name, address)

    def _end(self, name: str, address: str) -> None:
        try:
            self._lost(
                f"{name} at {address} is lost, and with it all workers and the steps since the newest checkpoint; "
                "continue with --resume"
            )
        finally:
            for process in _below(os.getpid()):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            os._exit(1)


def _refuses(address: str) -> bool:
    """Whether nobody listens at HOST:PORT; a machine that is slow to answer refuses nothing."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_PERIOD).close()
    except ConnectionError:
        return True
    except OSError:
        return False
    return False


def _below(ancestor: int) -> list[int]:
    """The processes that a process has started, and theirs."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found = list(children.get(ancestor, ()))
    for process in found:  # it grows
        found += children.get(process, ())
    return found
