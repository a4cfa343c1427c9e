"""Outcome: what a part of the torture tried, what that reached, what it counted, and what went wrong.

An attack that misses its target shows nothing. Every part therefore says of each attack what it aimed at, and whether
it got there, by a trace that the target left; a target that no attack reached is a fault.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

EXACT = ("deterministic=true", "threads=1", "model.dtype=float32")
"""Settings of runs that can be compared bit by bit."""


@dataclass
class Outcome:
    part: str
    tried: Counter[str] = field(default_factory=Counter)
    """Attacks, by what they aimed at."""
    reached: Counter[str] = field(default_factory=Counter)
    """Those of them that got there."""
    counts: Counter[str] = field(default_factory=Counter)
    """What happened how often, by short words."""
    faults: list[str] = field(default_factory=list)
    """What must not happen, one sentence each."""
    seconds: float = 0.0
    table: str = ""
    """What it has to show besides its row, in Markdown."""

    def attack(self, target: str, reached: bool) -> None:
        self.tried[target] += 1
        self.reached[target] += reached

    def judge_reach(self) -> None:
        """Add a fault for every target that no attack reached."""
        if not self.tried:
            self.faults.append("it attacked nothing")
        for target, tried in self.tried.items():
            if not self.reached[target]:
                self.faults.append(f"{target} was never reached ({tried:,} tried), so nothing is known of it")

    def row(self) -> str:
        counts = ", ".join(f"{word} {count:,}" for word, count in sorted(self.counts.items()))
        tried, reached = self.tried.total(), self.reached.total()
        return f"| {self.part} | {tried:,} | {reached:,} | {len(self.faults)} | {counts} | {self.seconds / 60:.1f} |"


HEADER = "| part | tried | reached | faults | counted | minutes |\n|---|--:|--:|--:|---|--:|"


@dataclass(frozen=True)
class Plan:
    folder: Path
    """For runs and corrupted files; emptied by nobody."""
    seed: int
    share: float
    """Of the full size; 1 is everything."""
    workers: int

    def times(self, full: int) -> int:
        """How many of `full` to try, at least one."""
        return max(1, round(full * self.share))


_FILE = "ATTACKS_TRACES"
"""The variable with the file that takes the traces; processes that are started inherit it."""


def leave_trace(text: str) -> None:
    """A target says that it is reached, before it does anything that could end its process."""
    with open(os.environ[_FILE], "ab", buffering=0) as file:
        file.write(f"{text}\n".encode())


@contextmanager
def traces(file: Path) -> Iterator[Callable[[], Counter[str]]]:
    """Targets leave their traces in `file`, for as long as the context lasts; what it gives counts those so far."""
    os.environ[_FILE] = str(file)
    try:
        yield lambda: Counter(file.read_text().splitlines() if file.exists() else ())
    finally:
        os.environ.pop(_FILE, None)
