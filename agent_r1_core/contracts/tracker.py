"""Tracker: where metrics and sampled trajectories are shown. `metrics.jsonl` of the run is the source of truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_r1_core.contracts.component import Component
from agent_r1_core.contracts.metric import Metric

if TYPE_CHECKING:
    from agent_r1_core.trajectory import Trajectory


@dataclass(frozen=True)
class RunInfo:
    """The run, for a tracker that opens."""

    name: str
    directory: str
    config: Mapping[str, Any]
    resumed_at: int | None = None
    """The step after which a resumed run continues; later entries of an earlier attempt are void. -1: all entries are
    void, since the run begins again with the evaluation of step 0. None: the run is new."""
    metrics: tuple[Metric, ...] = ()
    """What the run may report, with units and meanings."""


class Tracker(Component):
    """Shows a run. An exception of a tracker is reported once and never stops training (LAW 9)."""

    def open(self, run: RunInfo) -> None:
        """Begin a run, or continue one."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record the metrics of a step."""

    def log_trajectories(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Record a few sampled trajectories of a step."""

    def close(self) -> None:
        """Flush and end."""

    def how_to_look(self, directory: str) -> str | None:
        """The command that shows the run in `directory`; None where there is nothing to open."""
        return None
