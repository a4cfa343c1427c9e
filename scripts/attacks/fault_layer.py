"""FaultLayer: counts the calls by which a process changes the files of a folder; the n-th one kills the process, or
fails as on a broken or a full disk.

It replaces functions of Python, so that what C and Rust code writes is not counted. That has to be flushed to the disk
by a call that is: a kill there cuts the file in half, as one during the writing would. A kill at a call that writes
leaves half of the bytes. A failing call changes nothing, and the next one works again.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_r1_core.runs.files import TEMPORARY

ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}
FAULTS = ("kill", *ERRORS)
_NAMED = ("mkdir", "rmdir", "unlink", "remove", "rename", "replace", "truncate")
_OPENED = ("write", "pwrite", "ftruncate", "fsync", "sendfile")


@dataclass(frozen=True)
class Fault:
    """What happens, and at which call, from 1 on."""

    kind: str
    at: int


class FaultLayer:
    """The layer of this process; `install` puts it in for good."""

    def __init__(self, folder: Path, fault: Fault | None, trace: Path) -> None:
        """Watch a folder.

        Args:
            trace: a file outside the folder, which gets the name of the call that the fault hit, or without a fault
                those of all calls.
        """
        self._folder, self._fault = f"{folder.resolve()}{os.sep}", fault
        self._lock, self._calls = threading.RLock(), 0
        self._trace = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._write, self._truncate = os.write, os.truncate

    def install(self) -> None:
        """Replace the functions of `os`, and `open`."""
        for name in (*_NAMED, *_OPENED):
            setattr(os, name, self._watched(name, getattr(os, name)))
        opened, raw = os.open, io.open

        def os_open(path: Any, flags: int, *rest: Any, **options: Any) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                self._count("open", _path(path, options.get("dir_fd")))
            return opened(path, flags, *rest, **options)

        def io_open(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if isinstance(file, int) or not set(mode) & set("wax+"):
                return raw(file, mode, *rest, **options)
            self._count("open", _path(file))
            return self._file(file, mode, *rest, **options)

        os.open = os_open
        io.open = builtins.open = io_open

    def _watched(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(first: Any, *rest: Any, **options: Any) -> Any:
            path, tear = _path(first, options.get("dir_fd")), None
            if name == "write":
                tear = lambda: original(first, memoryview(rest[0])[: len(rest[0]) // 2])
            elif name == "fsync" and TEMPORARY in path and os.path.isfile(path):
                tear = lambda: self._truncate(path, os.path.getsize(path) // 2)
            self._count(name, path, tear)
            return original(first, *rest, **options)

        return call

    def _file(self, file: Any, mode: str, buffering: int = -1, *rest: Any, **options: Any) -> Any:
        """A file as `open` makes it, whose writing is counted."""
        layer = self

        class Watched(io.FileIO):
            def write(self, data: Any) -> int:
                half = memoryview(data).cast("B")[: memoryview(data).nbytes // 2]
                layer._count("write", _path(self.fileno()), lambda: layer._write(self.fileno(), half))
                return super().write(data)

        raw = Watched(file, mode.replace("b", "").replace("t", ""))
        if buffering == 0:
            return raw
        buffer = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffer if "b" in mode else io.TextIOWrapper(buffer, *rest, **options)

    def _count(self, name: str, path: str, tear: Callable[[], object] | None = None) -> None:
        """Count a call; if it is the one, do what the fault does."""
        if not path.startswith(self._folder):
            return
        with self._lock:
            self._calls += 1
            if self._fault is None or self._calls == self._fault.at:
                self._write(self._trace, f"{name} {path.removeprefix(self._folder)}\n".encode())
            if self._fault is None or self._calls != self._fault.at:
                return
            if self._fault.kind == "kill":
                if tear is not None:
                    tear()
                os.kill(os.getpid(), signal.SIGKILL)
            number = ERRORS[self._fault.kind]
            raise OSError(number, os.strerror(number), path)


def _path(file: Any, folder: int | None = None) -> str:
    """The absolute path of a file that is given by its descriptor, or by its path, in an open folder where one is."""
    if isinstance(file, int):
        return os.readlink(f"/proc/self/fd/{file}")
    path = os.fsdecode(os.fspath(file))
    return os.path.abspath(path if folder is None else os.path.join(_path(folder), path))
