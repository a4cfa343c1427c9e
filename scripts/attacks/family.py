"""Family: the processes that a command has started, and theirs."""

from __future__ import annotations

from contextlib import suppress

import psutil


class Family:
    """All processes that were ever seen below some process, and what each was called last."""

    def __init__(self) -> None:
        self._seen: dict[psutil.Process, str] = {}

    def look(self, ancestor: int) -> None:
        """Note who is there."""
        with suppress(psutil.Error):
            for process in psutil.Process(ancestor).children(recursive=True):
                with suppress(psutil.Error):
                    self._seen[process] = " ".join(process.cmdline()).strip()

    def alive(self) -> dict[psutil.Process, str]:
        """Those that have not ended, with their titles."""
        return {process: title for process, title in self._seen.items() if _lives(process)}

    def named(self, title: str) -> dict[psutil.Process, str]:
        """Those that live and whose title begins so, or whose program is called so."""
        return {
            process: own
            for process, own in self.alive().items()
            if own.startswith(title) or own.partition(" ")[0].rpartition("/")[2] == title
        }


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return False
