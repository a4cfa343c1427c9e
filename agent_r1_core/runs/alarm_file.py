"""`health.jsonl`: one JSON object for every alarm that begins or ends, written to disk before training continues.

It follows from `metrics.jsonl` and the section `health` of the configuration: a resume writes it anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from agent_r1_core.errors import RunError
from agent_r1_core.health.alarm import Alarm
from agent_r1_core.opening import parse_json, read_bytes
from agent_r1_core.runs.files import append_line, write_text


class AlarmFile:
    """The alarms of a run in the order of their steps."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, alarms: Sequence[Alarm]) -> None:
        """Replace all lines."""
        write_text(self.path, "".join(map(_line, alarms)))

    def append(self, alarms: Sequence[Alarm]) -> None:
        """Add the alarms of a step.

        Raises:
            RunError: writing fails.
        """
        for alarm in alarms:
            append_line(self.path, _line(alarm))

    def read(self) -> list[Alarm]:
        """All whole lines; what a kill cut off is no line.

        Raises:
            RunError: a line is none of an alarm.
        """
        if not self.path.exists():
            return []
        lines = read_bytes(self.path).split(b"\n")
        return [self._parse(number, line) for number, line in enumerate(lines[:-1], start=1)]

    def _parse(self, number: int, line: bytes) -> Alarm:
        try:
            return Alarm.from_json(parse_json(line))
        except (ValueError, TypeError) as error:
            raise RunError(f"line {number} of {self.path} is not an alarm; delete the line") from error


def _line(alarm: Alarm) -> str:
    return json.dumps(alarm.to_json(), allow_nan=False) + "\n"
