"""Outcome: what a part of the torture tried, what it counted, and what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Outcome:
    """One part's results."""

    part: str
    tried: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """What happened how often, by short words."""
    faults: list[str] = field(default_factory=list)
    """What must not happen, one sentence each."""
    seconds: float = 0.0
    table: str = ""
    """What it has to show besides its row, in Markdown."""

    def row(self) -> str:
        """The part's row of the Markdown table."""
        counts = ", ".join(f"{word} {count:,}" for word, count in sorted(self.counts.items()))
        return f"| {self.part} | {self.tried:,} | {len(self.faults)} | {counts} | {self.seconds / 60:.1f} |"


HEADER = "| part | tried | faults | counted | minutes |\n|---|--:|--:|---|--:|"


@dataclass(frozen=True)
class Plan:
    """How much to try, and where."""

    folder: Path
    """For runs and corrupted files; emptied by nobody."""
    seed: int
    share: float
    """Of the full size; 1 is everything."""
    workers: int

    def times(self, full: int) -> int:
        """How many of `full` to try, at least one."""
        return max(1, round(full * self.share))


Part = Callable[[Plan], Outcome]
