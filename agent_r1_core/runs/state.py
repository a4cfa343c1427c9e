"""RunState: whether a run is trained just now, and if not, how its training ended.

A trainer that is killed writes no end, but the kernel releases its lock: that is how a reader tells. Runs of versions
before have no events; of them the lock and the final policy tell as much as there is to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent_r1_core.runs.events_file import ENDS, Event, turning_point

RunKind = Literal["training", "finished", "interrupted", "failed"]
_KINDS: dict[str, RunKind] = {
    "finished": "finished",
    "stopped_early": "finished",
    "interrupted": "interrupted",
    "failed": "failed",
}


@dataclass(frozen=True)
class RunState:
    """What has become of a run."""

    kind: RunKind
    sentence: str

    @classmethod
    def of(cls, path: Path, events: Sequence[Event], held: bool) -> RunState:
        """The state of the run at `path`.

        Args:
            held: whether a process holds the run's lock.
        """
        last = turning_point(events)
        if last is not None and last.event in ENDS:
            return cls(_KINDS[last.event], last.text)
        if last is None and (path / "model").is_dir():
            return cls("finished", "its training has ended")
        if last is None and _only_evaluated(path):
            return cls("finished", "its evaluation is done; it trains nothing")
        if held:
            return cls("training", "it is training" if last is None else last.text)
        killed = "its process was killed" if last is not None else "it was stopped before its last step"
        return cls("interrupted", f"{killed}; continue with: agent-r1 train {path} --resume")


def _only_evaluated(path: Path) -> bool:
    """Whether `agent-r1 eval` made the run: a training records the tasks that it holds out before anything else."""
    return not (path / "evaluation_tasks.json").exists() and any(path.glob("evaluations/*.json"))
