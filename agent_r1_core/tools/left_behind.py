"""LeftBehind: threads whose calls were given up and still run; how many there may be before the rollout ends.

A call that waits for something costs memory. One that computes takes the interpreter from everybody else, so that few
of those are too many; their processor time is known only on Linux.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from pathlib import Path

from agent_r1_core.errors import EpisodeError

MOST_LEFT = 32
"""Calls that may run on at once after they were given up; a further call waits until one of them ends."""
MOST_LOOPS = 4
"""Calls among them that may compute."""
LOOP_SECONDS = 1.0
"""A call that has used so much processor time since it was given up is a loop."""
LEFT_SECONDS = 60.0
"""How long a call waits until fewer are left, before the rollout ends."""
_POLL_SECONDS = 0.05


class TooManyLeft(EpisodeError):
    """Too many calls run on after they were given up; no retry would help."""


class LeftBehind:
    """The threads of one pool that were left behind."""

    def __init__(self) -> None:
        self._threads: dict[threading.Thread, tuple[str, float]] = {}
        """The name of each thread's call, and the thread's processor time when it was given up."""
        self._looked = 0.0
        self._sentence: str | None = None
        """What was seen then: whether too many are left."""

    def add(self, thread: threading.Thread, name: str) -> None:
        """Leave a thread behind in a call of that name."""
        self._threads[thread] = (name, _computed(thread))

    async def wait_for_room(self) -> None:
        """Wait while as many calls as may be are left.

        Raises:
            TooManyLeft: none of them ends.
        """
        if len(self._threads) < min(MOST_LEFT, MOST_LOOPS):
            return
        deadline = time.monotonic() + LEFT_SECONDS
        while (sentence := self._look()) is not None:
            if time.monotonic() > deadline:
                raise TooManyLeft(sentence)
            await asyncio.sleep(_POLL_SECONDS)

    def _look(self) -> str | None:
        """What `_too_many` says; all calls that wait share one look."""
        if time.monotonic() - self._looked >= _POLL_SECONDS:
            self._sentence, self._looked = self._too_many(), time.monotonic()
        return self._sentence

    def _too_many(self) -> str | None:
        """A sentence if too many are left."""
        self._threads = {thread: left for thread, left in self._threads.items() if thread.is_alive()}
        waiting = Counter(name for name, _ in self._threads.values())
        loops = [thread for thread, (_, before) in self._threads.items() if _computed(thread) - before > LOOP_SECONDS]
        looping = Counter(self._threads[thread][0] for thread in loops)
        for what, left, most in (("compute", looping, MOST_LOOPS), ("run", waiting, MOST_LEFT)):
            if left.total() >= most:
                return (
                    f"{left.total()} calls still {what} in threads although they were given up, most of them of "
                    f"{left.most_common(1)[0][0]}; make it end by itself, or give a tool isolation: process, whose "
                    "calls are killed at their deadline"
                )
        return None


def _computed(thread: threading.Thread) -> float:
    """Processor time of a thread; 0 where that is not known."""
    try:
        fields = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
