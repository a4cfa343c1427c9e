"""Locks that the kernel releases when their holder dies: one writer per run, and readers that keep a checkpoint.

These are `flock` locks, which belong to the open file: nothing else in the process that opens and closes the same file
releases them. A forked child closes its copies at once, so that orphans of a killed trainer do not keep a run locked.
They work on local disks and on NFS; systems without `fcntl` (Windows) are not supported.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Self
from weakref import WeakSet

from agent_r1_core.errors import NotOpened, RunError
from agent_r1_core.opening import check_links, handle_to_read, open_to_write
from agent_r1_core.runs.files import naming

NAME = ".lock"
FOLDERS = ("trajectories", "checkpoints", "evaluations")
"""The folders that every run has, which its writer writes."""


class FileLock:
    """An open file that may be locked; `release`, the end of a `with` or dropping the last reference closes it."""

    handle = -1
    """The file's descriptor; -1: the lock is released."""

    def __init__(self, path: Path, writing: bool) -> None:
        self.handle = open_to_write(path, os.O_RDWR | os.O_CREAT) if writing else handle_to_read(path)
        _open.add(self)

    def __del__(self) -> None:
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def take(self, operation: int) -> None:
        """Lock it by `flock`; a BlockingIOError says that another holder is in the way."""
        fcntl.flock(self.handle, operation)

    def is_at(self, path: Path) -> bool:
        """Whether the file is still the one at `path`."""
        try:
            return os.path.samestat(os.fstat(self.handle), os.stat(path))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        handle, self.handle = self.handle, -1
        if handle >= 0:
            _open.discard(self)
            with contextlib.suppress(OSError):  # a plugin has closed it, which released the lock
                os.close(handle)


_open: WeakSet[FileLock] = WeakSet()
"""The locks of this process."""


def _close_inherited() -> None:
    """Close the parent's locks in a forked child; the parent keeps them."""
    for lock in list(_open):
        lock.release()


os.register_at_fork(after_in_child=_close_inherited)


_MOMENTS = 20
_MOMENT = 0.01
"""How often, and after how many seconds each, a lock is tried again: `is_held` takes it for an instant."""


class RunLock(FileLock):
    """The right to write a run directory, until `release` or the end of the process."""

    def __init__(self, folder: Path) -> None:
        """Take the lock.

        Raises:
            RunError: another process, or another part of this one, holds it; its file cannot be written; or the
                folder was deleted or replaced meanwhile, so that the lock would protect nothing.
            NotOpened: a link in the folder leads out of it: who writes the run might write elsewhere.
        """
        path = folder / NAME
        with naming(path):
            for written in (folder, *(folder / name for name in FOLDERS if (folder / name).is_dir())):
                check_links(written, within=folder)
            super().__init__(path, writing=True)
            try:
                self._take_alone(folder, path)
                os.ftruncate(self.handle, 0)
                os.pwrite(self.handle, f"{os.getpid()}\n".encode(), 0)
            except BaseException:
                self.release()
                raise

    def _take_alone(self, folder: Path, path: Path) -> None:
        for _ in range(_MOMENTS):
            with contextlib.suppress(BlockingIOError):
                self.take(fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(_MOMENT)
        else:
            raise RunError(self._refusal(folder, path))
        if not self.is_at(path):
            raise RunError(f"run {folder} was deleted or replaced just now; look at what is there and try again")

    def _refusal(self, folder: Path, path: Path) -> str:
        if any(other is not self and isinstance(other, RunLock) and other.is_at(path) for other in _open):
            return f"run {folder} is already open for writing in this process; close it first"
        holder = os.pread(self.handle, 32, 0).decode(errors="replace").strip() or "unknown"
        return f"run {folder} is being written by process {holder}; wait for it or stop it"


def is_held(folder: Path) -> bool:
    """Whether a process, perhaps this one, has the right to write a run directory. Nothing is written, and a `RunLock`
    that is taken meanwhile is not refused.

    Raises:
        NotOpened: what lies there is no lock.
    """
    try:
        lock = FileLock(folder / NAME, writing=False)
    except NotOpened:
        raise
    except OSError:
        return False
    with lock, contextlib.suppress(OSError):  # a file system without locks
        try:
            lock.take(fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def lock_for_reading(path: Path) -> FileLock | None:
    """A shared lock on a file, so that `lock_for_deleting` skips it; None if the file is gone.

    A file system without locks gives one that protects nothing: reading goes on without.
    """
    try:
        lock = FileLock(path, writing=False)
    except FileNotFoundError:
        return None
    try:
        lock.take(fcntl.LOCK_SH)
    except OSError:
        return lock
    if lock.is_at(path):
        return lock
    lock.release()
    return None


def lock_for_deleting(path: Path) -> FileLock | None:
    """The only lock on a file (created if missing), to be held until it is deleted; None while somebody reads it."""
    lock = FileLock(path, writing=True)
    try:
        lock.take(fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.release()
        return None
    except OSError:
        pass  # a file system without locks
    return lock
