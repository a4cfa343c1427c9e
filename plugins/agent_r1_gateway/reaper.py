"""Reaper: ends the programs of a process that was killed, and so could not; imports the standard library alone.

As a script it reads which process groups live (`+ GROUP FOLDER`) and which have ended (`- GROUP`). When its stdin ends,
so has the process that wrote there: it kills the groups that live, and removes their folders.
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


def lives(group: int, folder: str) -> None:
    """A process group has begun, which has this folder to itself."""
    _tell(f"+ {group} {folder}")


def ended(group: int) -> None:
    """A process group has ended, and its folder is gone."""
    _tell(f"- {group}")


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
        sign, group, *folder = line.rstrip("\n").split(" ", 2)
        if sign == "+":
            living[int(group)] = folder[0]
        else:
            living.pop(int(group), None)
    for number, place in living.items():
        with suppress(OSError):
            os.killpg(number, signal.SIGKILL)
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    _reap(sys.stdin)
