"""Calls all trackers of a run; a tracker's exception is reported once and never stops training (LAW 9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent_r1_core.contracts.tracker import RunInfo, Tracker
from agent_r1_core.errors import AgentR1Error

if TYPE_CHECKING:
    from agent_r1_core.trajectory import Trajectory


@dataclass
class Trackers:
    """Forwards every call to each tracker that still works."""

    trackers: Sequence[Tracker]
    report: Callable[[str], None]
    broken: set[int] = field(default_factory=set)

    def open(self, run: RunInfo) -> None:
        """Start or continue a run.

        Raises:
            AgentR1Error: a tracker reports that it cannot be used here, for example because a package is missing.
        """
        self._each("open", run, expected=AgentR1Error)

    def log(self, step: int, metrics: Mapping[str, float], shown: Sequence[Trajectory]) -> None:
        """Record a step's metrics and a few of its trajectories."""
        self._each("log", step, metrics)
        if shown:
            self._each("log_trajectories", step, shown)

    def close(self) -> None:
        """Flush and end."""
        self._each("close")

    def _each(self, method: str, *arguments: Any, expected: type[Exception] | tuple[()] = ()) -> None:
        for index, tracker in enumerate(self.trackers):
            if index in self.broken:
                continue
            try:
                getattr(tracker, method)(*arguments)
            except expected:
                raise
            except Exception as error:
                self.broken.add(index)
                self.report(
                    f"tracker {tracker.name} failed in {method} ({type(error).__name__}: {error}) and is not used "
                    f"any more; metrics.jsonl has everything"
                )
