"""Times the engine's thread, to show what a step spends outside engine, learner and tools.

Wall time of the engine's thread holds what it waits for Python's lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from agent_r1_transformers.batch import RunningBatch


@dataclass
class StepClock:
    """The measurements so far."""

    engine: list[tuple[float, float]] = field(default_factory=list)
    """Spans of `time.perf_counter` during which the engine computed."""

    def engine_seconds(self, begin: float, end: float) -> float:
        """Busy seconds of the engine between two moments."""
        return sum(max(0.0, min(stop, end) - max(start, begin)) for start, stop in self.engine)


@contextmanager
def step_clock() -> Iterator[StepClock]:
    """Time the embedded engine's batch inside the `with` block."""
    clock = StepClock()
    own: dict[str, Callable[..., Any]] = {"admit": RunningBatch.admit, "step": RunningBatch.step}

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            begun = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                clock.engine.append((begun, time.perf_counter()))

        return call

    for name, function in own.items():
        setattr(RunningBatch, name, timed(function))
    try:
        yield clock
    finally:
        for name, function in own.items():
            setattr(RunningBatch, name, function)
