"""`events.jsonl`: how a run began, what its user was told, and how it ended; one JSON object a line.

It is a log in the order of time: steps that a resume repeats are in it as often as they happened, and nothing is ever
taken out. A run that was killed has no end until a resume finds out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from agent_r1_core.contracts.markup import encodable
from agent_r1_core.errors import RunError
from agent_r1_core.opening import parse_json, read_bytes
from agent_r1_core.runs.files import append_line, remove_torn_line

Start = Literal["started", "resumed"]
End = Literal["finished", "stopped_early", "interrupted", "failed"]
Kind = Literal[Start, End, "note"]

STARTS: tuple[str, ...] = get_args(Start)
ENDS: tuple[str, ...] = get_args(End)
_KINDS: tuple[str, ...] = (*STARTS, *ENDS, "note")


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


class EventsFile:
    """The events of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, event: Event) -> None:
        """Add an event; it is on disk when this returns.

        Raises:
            RunError: writing fails.
        """
        line = json.dumps(asdict(event), ensure_ascii=False, allow_nan=False)
        append_line(self.path, encodable(line) + "\n")

    def read(self) -> list[Event]:
        """All whole lines; what a kill cut off is no line.

        Raises:
            RunError: a line is none of an event, or the file cannot be read.
        """
        try:
            lines = read_bytes(self.path).split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RunError(f"{self.path} cannot be read ({error.strerror}); make it readable and try again") from error
        return [self._parse(number, line) for number, line in enumerate(lines[:-1], start=1)]

    def remove_torn_line(self) -> None:
        """Delete a last line that a kill cut off."""
        remove_torn_line(self.path)

    def _parse(self, number: int, line: bytes) -> Event:
        try:
            found = parse_json(line)
            event = Event(float(found["time"]), int(found["step"]), found["event"], str(found["text"]))
            if event.event not in _KINDS:
                raise ValueError(event.event)
            return event
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise RunError(f"line {number} of {self.path} is not an event; delete the line") from error
