"""Openings: whether a file was opened, by whatever code of whatever process, as Linux tells by inotify."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_IN_OPEN = 0x20
_LIBC = ctypes.CDLL(None, use_errno=True)


class Openings:
    """The openings of a file since the context began."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def happened(self) -> bool:
        """Whether there was one since this was asked last."""
        try:
            return bool(os.read(self._handle, 4096))
        except BlockingIOError:
            return False


@contextmanager
def openings(path: Path) -> Iterator[Openings]:
    """Watch a file, for as long as the context lasts."""
    handle = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if handle < 0 or _LIBC.inotify_add_watch(handle, os.fsencode(path), _IN_OPEN) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
        yield Openings(handle)
    finally:
        os.close(handle)
