"""An event loop in virtual time: it never waits, but jumps to its next timer; computing takes the time that it takes.

A step of minutes is over as soon as its computing is. Time is the sum of all jumps and of the processor time of the
metered parts, so that a controller that is too slow makes the simulated step longer, as it would a real one.
Processor time that belongs to nobody in the real world (the simulation itself) does not pass.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections import defaultdict
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
SIMULATION = "simulation"
"""The part whose time does not pass."""


class Meter:
    """Processor seconds of this thread by part; a part within a part counts for itself alone."""

    def __init__(self, rest: str) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._part = rest
        """The part that computes now."""
        self._since = time.thread_time()
        self._counted = 0.0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count what the `with` block computes for a part."""
        before = self.switch(name)
        try:
            yield
        finally:
            self.switch(before)

    def switch(self, name: str) -> str:
        """Count for a part from now on; returns the one before."""
        now = time.thread_time()
        self.seconds[self._part] += now - self._since
        if self._part != SIMULATION:
            self._counted += now - self._since
        before, self._part, self._since = self._part, name, now
        return before

    def counted(self) -> float:
        """Processor seconds so far, without the simulation's."""
        return self._counted + (0.0 if self._part == SIMULATION else time.thread_time() - self._since)


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop; `slept` are its jumps in seconds."""

    def __init__(self, meter: Meter) -> None:
        self.slept = 0.0
        self._meter = meter
        super().__init__(_Jumping(self))

    def time(self) -> float:
        """Seconds since it was made."""
        return self.slept + self._meter.counted()


class _Jumping(selectors.DefaultSelector):
    """Does not wait for the next timer, but lets the loop's time jump to it."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        """What is ready now."""
        if timeout is None:
            raise RuntimeError("nothing will ever happen in this simulation: every coroutine waits for another one")
        if timeout > 0:
            self._loop.slept += timeout
        found: list[Any] = super().select(0)
        return found


def run(meter: Meter, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(meter)) as runner:
        return runner.run(work)
