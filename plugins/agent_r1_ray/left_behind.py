"""Processes that a lost Ray leaves behind, found and ended; imports only the standard library.

As a script it stands by a process that uses a local Ray. Ray ends such a process from C++ where it uses Ray's store as
its raylet dies: nothing in it can say so any more, and what it has started would live on.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

MARK = "AGENT_R1_RAY"
"""An environment variable that all inherit that a local Ray starts, so that what a dead raylet leaves behind is known.
Ray's agents write their titles over it; they are there before anything else."""


def below(ancestor: int) -> dict[int, str]:
    """The processes that a process has started, and theirs, each with the time at which it began."""
    children: dict[str, list[int]] = {}
    for process in _processes():
        for parent in _stat(process)[1:2]:
            children.setdefault(parent, []).append(process)
    processes = [ancestor]
    for process in processes:  # it grows
        processes += children.get(str(process), [])
    return {process: begun(process) for process in processes[1:]}


def begun(process: int) -> str:
    """When a process began, which tells it from a later one of the same number; empty: it has ended."""
    return "".join(_stat(process)[19:20])


def end(known: Mapping[int, str], mark: str | None) -> None:
    """Kill the known processes that still live, each with the time at which it began, and all with the mark."""
    living = {process for process, start in known.items() if begun(process) == start}
    for process in living | (_marked(mark) if mark else set()):
        with suppress(OSError):  # it has ended meanwhile, or is another user's
            os.kill(process, signal.SIGKILL)


def stand_by(raylet: str, mark: str, sentence: str) -> subprocess.Popen[bytes]:
    """Start the script beside this process. When this process has ended and nobody listens at the raylet's address any
    more, it says so, unless its stdin has heard that it was said, and ends what is left.

    Args:
        raylet: HOST:PORT of a local Ray's.
        sentence: said on stderr.
    """
    known = (f"{process}:{start}" for process, start in below(os.getpid()).items())
    call = [sys.executable, "-I", "-S", __file__, raylet, mark, sentence, *known]
    return subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)


def _processes() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]


def _stat(process: int) -> list[str]:
    """What /proc says of a process, from its state on; empty: it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _marked(mark: str) -> set[int]:
    """The processes that began with this mark, but for this one."""
    entry, found = f"{MARK}={mark}".encode(), set[int]()
    for process in _processes():
        with suppress(OSError):  # it has ended meanwhile, or is another user's
            if entry in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                found.add(process)
    return found - {os.getpid()}


def _main(raylet: str, mark: str, sentence: str, *known: str) -> None:
    heard = sys.stdin.read()  # until the process beside it has ended
    host, _, port = raylet.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except ConnectionError:
        if not heard:
            print(f"error: {sentence}", file=sys.stderr, flush=True)
        end({int(process): start for process, _, start in (one.partition(":") for one in known)}, mark)
    except TimeoutError:  # it is slow, so it lives
        pass


if __name__ == "__main__":
    _main(*sys.argv[1:])
