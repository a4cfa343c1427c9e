"""The keeper of a tool's process: `python isolated_keeper.py SECONDS FD ARGUMENT...` runs Python; nothing outlives it.

It adopts what the process leaves running, also in sessions of its own, and kills all of it when the process ends, when
a byte on standard input says so, or some seconds after standard input ends, since the training process is gone then. It
is a process by itself that imports nothing of ours, so that it is small and starts at once. Only Linux has adoption:
elsewhere a process that leaves the session escapes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main(seconds: float, connection: int, arguments: list[str]) -> int:
    """Run Python with these arguments and the connection to its end; returns its exit status, as a shell tells it."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    process = os.fork()
    if process == 0:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execv(sys.executable, [sys.executable, *arguments, str(connection)])
    os.close(connection)
    threading.Thread(target=_obey, args=(process, seconds), daemon=True).start()
    while (ended := os.wait())[0] != process:
        pass  # what it left running and has ended
    _end_all(process)
    status = os.waitstatus_to_exitcode(ended[1])
    return status if status >= 0 else 128 - status


def _obey(process: int, seconds: float) -> None:
    """End the process when the training process says so or is gone, which the process notices, too, and may close."""
    if not os.read(0, 1):
        time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):  # it has ended by itself
        os.kill(process, signal.SIGKILL)


def _end_all(process: int) -> None:
    """End everything that the process has left running; what those leave behind is adopted in turn."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):  # there are no more
        while True:
            for child in _children():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGKILL)
            os.wait()


def _children() -> list[int]:
    """What this process's main thread has started, or has adopted."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


if __name__ == "__main__":
    os._exit(main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
