"""`metrics.jsonl`: one JSON object a step, written to disk before training continues.

Readers ignore a last line that a kill cut off; a resume removes it, and keeps the last of several lines of one step.
NaN and infinities, which JSON lacks, are the strings "NaN", "Infinity" and "-Infinity" in the file and floats again
when read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from agent_r1_core.contracts.json_text import NOT_FINITE, name_of
from agent_r1_core.errors import RunError
from agent_r1_core.opening import parse_json
from agent_r1_core.runs.files import append_line, read_lines, write_text


class MetricsFile:
    """The metrics of a run by step, in ascending order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last: int | None = None
        """The step of the last line; None until it is known."""

    def append(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add the line of a step.

        Raises:
            RunError: the file already has this step or a later one, or writing fails.
        """
        last = self.last_step() if self._last is None else self._last
        if step <= last:
            raise RunError(
                f"{self.path} already has the metrics of step {last}, so those of step {step} cannot be added; "
                "write a step's metrics once, and truncate the file before repeating steps"
            )
        record = {"step": step} | {name: _plain(value) for name, value in metrics.items()}
        append_line(self.path, json.dumps(record, allow_nan=False) + "\n")
        self._last = step

    def read(self) -> list[dict[str, Any]]:
        """All whole lines.

        Raises:
            RunError: a line in the middle is not JSON.
        """
        return [self.parse(number, line) for number, line in enumerate(read_lines(self.path), start=1)]

    def last_step(self) -> int:
        """The step of the last line; -1 if there is none."""
        records = self.read()
        return int(records[-1]["step"]) if records else -1

    def truncate_after(self, step: int) -> None:
        """Delete the lines of later steps, and all but the last line of each step; sort the others."""
        if not self.path.exists():
            return
        lines = enumerate(read_lines(self.path), start=1)
        by_step = {self.parse(number, line)["step"]: line.decode() + "\n" for number, line in lines}
        write_text(self.path, "".join(by_step[kept] for kept in sorted(by_step) if kept <= step))
        self._last = None

    def parse(self, number: int, line: bytes, only: Collection[str] | None = None) -> dict[str, Any]:
        """The metrics of a line, all or only some, and its step; a RunError where it has none."""
        try:
            record = parse_json(line)
            names = record if only is None else [name for name in only if name in record]
            values = {name: _number(record[name]) for name in {"step": None, **dict.fromkeys(names)}}
            return values | {"step": int(values["step"])}
        except (ValueError, KeyError, AttributeError, TypeError, OverflowError) as error:
            raise damaged_line(self.path, number) from error


def damaged_line(path: Path, number: int) -> RunError:
    """The error of a line that is not what agent-r1 wrote."""
    return RunError(f"line {number} of {path} is not the metrics of a step; delete the line")


def _number(value: Any) -> float:
    """What `_plain` wrote; raises TypeError or OverflowError if it wrote something else."""
    number = NOT_FINITE.get(value, value)
    if not isinstance(number, int | float):
        raise TypeError(f"{value!r} is no number")
    float(number)
    return number


def _plain(value: float) -> float | int | str:
    if isinstance(value, int):
        return int(value)
    number = float(value)
    return number if math.isfinite(number) else name_of(number)
