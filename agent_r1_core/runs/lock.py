"""One writer per run: a lock that the kernel releases when its holder dies.

This is a POSIX record lock. Children do not inherit it, so orphaned workers of a killed trainer do not keep a run
locked. It works on local disks and on NFS with a lock daemon; systems without `fcntl` (Windows) are not supported.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from agent_r1_core.errors import RunError

NAME = ".lock"
_held: set[Path] = set()
"""Locks of this process; a record lock does not exclude its own process."""


class RunLock:
    """The right to write a run directory, until `release` or the end of the process."""

    def __init__(self, folder: Path) -> None:
        """Take the lock.

        Raises:
            RunError: another process, or another part of this one, holds it.
        """
        self.path = folder.resolve() / NAME
        if self.path in _held:
            raise RunError(f"run {folder} is already open for writing in this process; close it first")
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
        """Record that the locked folder was renamed to `folder`."""
        _held.discard(self.path)
        self.path = folder.resolve() / NAME
        _held.add(self.path)

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
            _held.discard(self.path)
