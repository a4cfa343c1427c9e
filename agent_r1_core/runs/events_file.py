"""`events.jsonl`: how a run began, what its user was told, and how it ended; one JSON object a line.

It is a log in the order of time: steps that a resume repeats are in it as often as they happened, and nothing is ever
taken out. A run that was killed has no end until a resume finds out; until then `RunState` tells by the lock, which the
kernel released. Runs of versions before have no events; of them the lock and the final policy tell as much as there is
to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

Start = Literal["started", "resumed"]
End = Literal["finished", "stopped_early", "interrupted", "failed"]
Kind = Literal[Start, End, "note"]

STARTS: tuple[str, ...] = get_args(Start)
ENDS: tuple[str, ...] = get_args(End)


@dataclass(frozen=True)
class Event:
    """Something that happened in a run."""

    time: float
    """Seconds since 1970."""
    step: int
    """The last step that was recorded by then."""
    event: Kind
    text: str
    """One sentence."""


def turning_point(events: Sequence[Event]) -> Event | None:
    """The newest event at which training began or ended."""
    return next((one for one in reversed(events) if one.event in (*STARTS, *ENDS)), None)


RunKind = Literal["training", "finished", "interrupted", "failed"]
_KIND_OF_END: dict[str, RunKind] = {
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
        """The state of the run at `path`; `held`: a process holds its lock."""
        last = turning_point(events)
        if last is not None and last.event in ENDS:
            return cls(_KIND_OF_END[last.event], last.text)
        if last is None and (path / "model").is_dir():
            return cls("finished", "its training has ended")
        # A training records the tasks that it holds out before anything else.
        if last is None and not (path / "evaluation_tasks.json").exists() and any(path.glob("evaluations/*.json")):
            return cls("finished", "its evaluation is done; it trains nothing")
        if held:
            return cls("training", "it is training" if last is None else last.text)
        killed = "its process was killed" if last is not None else "it was stopped before its last step"
        return cls("interrupted", f"{killed}; continue with: agent-r1 train {path} --resume")
