"""Reaper: ends the programs of a process that was killed, and so could not; imports the standard library alone.

As a script it reads which sessions of processes live (`+ SESSION FOLDER`) and which have ended (`- SESSION`). When its
stdin ends, so has the process that wrote there: it kills the sessions that live, and removes their folders.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress

_WAIT = 5.0
"""Seconds in which the script ends at the end of this process."""
_starting = threading.Lock()
_script: subprocess.Popen[bytes] | None = None


def lives(session: int, folder: str) -> None:
    """A session has begun, which has this folder to itself."""
    _tell(f"+ {session} {folder}")


def ended(session: int) -> None:
    """A session has ended, and its folder is gone."""
    _tell(f"- {session}")


def signal_session(session: int, number: int) -> None:
    """Send a signal to all process groups of a session: `timeout`, and shells with job control, begin their own. Where
    the system has no /proc, to its first group alone; that one is last, since it may be the caller's."""
    groups = set()
    with suppress(OSError):
        for process in filter(str.isdecimal, os.listdir("/proc")):
            with suppress(OSError):  # it has ended meanwhile
                if os.getsid(int(process)) == session:
                    groups.add(os.getpgid(int(process)))
    for group in (*(groups - {session}), session):
        with suppress(OSError):
            os.killpg(group, number)


def _tell(line: str) -> None:
    global _script
    with _starting:
        if _script is None or _script.poll() is not None:
            call = [sys.executable, "-I", "-S", __file__]
            _script = subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
            atexit.register(_end, _script)
        assert _script.stdin is not None
        with suppress(OSError):  # somebody has killed it
            os.write(_script.stdin.fileno(), f"{line}\n".encode("utf-8", "surrogateescape"))


def _end(script: subprocess.Popen[bytes]) -> None:
    with suppress(OSError, subprocess.TimeoutExpired):
        script.communicate(timeout=_WAIT)


def _reap(lines: Iterable[str]) -> None:
    living: dict[int, str] = {}
    for line in lines:
        sign, session, *folder = line.rstrip("\n").split(" ", 2)
        if sign == "+":
            living[int(session)] = folder[0]
        else:
            living.pop(int(session), None)
    for number, place in living.items():
        signal_session(number, signal.SIGKILL)
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    _reap(sys.stdin)
