"""One writer per run: a lock that the kernel takes back when its holder dies, however it dies.

A POSIX record lock: children do not inherit it, so orphaned workers of a killed trainer do not keep a run locked. It
works on local disks and on NFS with a lock daemon; systems without `fcntl` (Windows) are not supported.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from agent_r1_core.errors import RunError

NAME = ".lock"
_held: set[Path] = set()
"""Record locks do not exclude their own process; this does."""


class RunLock:
    """The right to write a run directory, until `release` or death."""

    def __init__(self, folder: Path) -> None:
        """Take the lock.

        Raises:
            RunError: another process, or another part of this one, holds it.
        """
        self.path = folder.resolve() / NAME
        if self.path in _held:
            raise RunError(f"run {folder} is open for writing in this process already; close it first")
        self._handle: int | None = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._handle, 32).decode(errors="replace").strip() or "unknown"
            os.close(self._handle)
            raise RunError(f"run {folder} is being written by process {holder}; wait for it or stop it") from error
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)
        _held.add(self.path)

    def moved(self, folder: Path) -> None:
        """The locked folder, the lock in it, has another name now."""
        _held.discard(self.path)
        self.path = folder.resolve() / NAME
        _held.add(self.path)

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
            _held.discard(self.path)
