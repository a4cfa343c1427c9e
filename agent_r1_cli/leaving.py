"""How the command ends: after its answer, within a stated time, whatever plugins left running.

Python waits at its end for threads that are no daemons and for processes of `multiprocessing`, and a forked copy of
this process keeps its standard output open for its reader. Nothing in Python can stop another thread, so that
after the time the process leaves at once: buffers are flushed, but no exit handler runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

from agent_r1_cli.output import say

LEAVE_SECONDS = 10.0
"""Time for what plugins left running, after the command has done its work."""
_POLL_SECONDS = 0.05


def leave_in_time(code: int) -> None:
    """Let Python end by itself with this exit code; after `LEAVE_SECONDS`, leave at once."""
    deadline = time.monotonic() + LEAVE_SECONDS
    threading.Thread(target=_watch, args=(code,), name="agent-r1-leaving", daemon=True).start()
    while forked_copies() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    if forked_copies():
        _leave(code)


def forked_copies() -> list[int]:
    """Ids of the children that are copies of this process: forked, without another program; needs /proc."""
    copies = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and (folder / "cmdline").read_bytes() == _own_command():
                copies.append(int(folder.name))
    return copies


def _own_command() -> bytes:
    return Path("/proc/self/cmdline").read_bytes()


def _watch(code: int) -> None:
    time.sleep(LEAVE_SECONDS)
    _leave(code)


def _leave(code: int) -> None:
    """Say what still runs, end forked copies, and leave."""
    copies = forked_copies()
    threads = [thread.name for thread in threading.enumerate() if not thread.daemon and thread.name != "MainThread"]
    running = [*(f"thread {name}" for name in threads), *(f"process {copy}" for copy in copies)]
    for copy in copies:
        with contextlib.suppress(ProcessLookupError):
            os.kill(copy, signal.SIGKILL)
    with contextlib.suppress(Exception):
        say(f"leaving now: a plugin left {', '.join(running) or 'something'} running, which does not end")
        sys.stdout.flush()
    os._exit(code)
