"""Traces: what the targets of attacks say when they are reached, in whatever process they are."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_FILE = "ATTACKS_TRACES"
"""The variable with the file that takes the traces; processes that are started inherit it."""


def leave_trace(text: str) -> None:
    """A target says that it is reached, before it does anything that could end its process."""
    handle = os.open(os.environ[_FILE], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, f"{text}\n".encode())
    finally:
        os.close(handle)


@dataclass(frozen=True)
class Traces:
    """The traces that were left so far."""

    file: Path

    def counted(self) -> Counter[str]:
        """How often each was left."""
        return Counter(self.file.read_text().splitlines() if self.file.exists() else ())


@contextmanager
def traces(file: Path) -> Iterator[Traces]:
    """Targets leave their traces in `file`, for as long as the context lasts."""
    os.environ[_FILE] = str(file)
    try:
        yield Traces(file)
    finally:
        os.environ.pop(_FILE, None)
