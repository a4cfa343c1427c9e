"""Times the engine's thread and the learner, to show what a step spends outside engine, learner and tools.

Wall time of the engine's thread holds what it waits for Python's lock; the processor time of the event loop's thread
tells how much work there is beside the engine's and the learner's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from agent_r1_transformers.batch import RunningBatch

from agent_r1_core.learning.learner import Learner


@dataclass
class StepClock:
    """The measurements so far."""

    engine: list[tuple[float, float]] = field(default_factory=list)
    """Spans of `time.perf_counter` during which the engine computed."""
    learner_cpu: float = 0.0
    """Processor seconds of updates, which have their own thread."""

    def engine_seconds(self, begin: float, end: float) -> float:
        """Busy seconds of the engine between two moments."""
        return sum(max(0.0, min(stop, end) - max(start, begin)) for start, stop in self.engine)


@contextmanager
def step_clock() -> Iterator[StepClock]:
    """Time the embedded engine's batch and the learner inside the `with` block."""
    clock = StepClock()
    own: dict[tuple[type, str], Callable[..., Any]] = {
        (RunningBatch, "admit"): RunningBatch.admit,
        (RunningBatch, "step"): RunningBatch.step,
        (Learner, "update"): Learner.update,
    }

    def timed(cls: type, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            begun, cpu = time.perf_counter(), time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                if cls is Learner:
                    clock.learner_cpu += time.thread_time() - cpu
                else:
                    clock.engine.append((begun, time.perf_counter()))

        return call

    for (cls, name), function in own.items():
        setattr(cls, name, timed(cls, function))
    try:
        yield clock
    finally:
        for (cls, name), function in own.items():
            setattr(cls, name, function)
