"""The most memory that a process owns while it runs, without the files that it maps (Linux)."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Memory:
    """The most memory that a process owned while it ran, in GB."""

    def __init__(self, process: int) -> None:
        self.most = 0.0
        self._file, self._ended = Path(f"/proc/{process}/status"), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """End watching; returns the most."""
        self._ended.set()
        self._thread.join()
        return self.most

    def _watch(self) -> None:
        while not self._ended.wait(0.05):
            try:
                owned = re.search(r"RssAnon:\s+(\d+) kB", self._file.read_text())
            except OSError:
                return
            self.most = max(self.most, int(owned[1]) / 1e6 if owned else 0.0)


@contextmanager
def watching() -> Iterator[Memory]:
    """The memory of this process."""
    memory = Memory(os.getpid())
    yield memory
    memory.stop()
