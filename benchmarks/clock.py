"""Times the thread in which the embedded engine computes, so that what is not engine, learner or tool can be told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agent_r1_transformers.batch import RunningBatch


@dataclass
class EngineClock:
    """Seconds in which the engine read or sampled; it grows while rollouts go on."""

    spans: list[tuple[float, float]] = field(default_factory=list)

    def seconds(self, begin: float = float("-inf"), end: float = float("inf")) -> float:
        """Busy seconds between two moments of `time.perf_counter`."""
        return sum(max(0.0, min(stop, end) - max(start, begin)) for start, stop in self.spans)


@contextmanager
def engine_clock() -> Iterator[EngineClock]:
    """Within it, every `admit` and `step` of the embedded engine's batch is timed."""
    clock = EngineClock()
    own = {name: getattr(RunningBatch, name) for name in ("admit", "step")}

    def timed(name: str):  # type: ignore[no-untyped-def]
        def call(*args, **kwargs):  # type: ignore[no-untyped-def]
            begun = time.perf_counter()
            try:
                return own[name](*args, **kwargs)
            finally:
                clock.spans.append((begun, time.perf_counter()))

        return call

    for name in own:
        setattr(RunningBatch, name, timed(name))
    try:
        yield clock
    finally:
        for name, function in own.items():
            setattr(RunningBatch, name, function)
