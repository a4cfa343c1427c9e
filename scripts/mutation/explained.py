"""Survivors that no test can tell from the original, or that none should: why, read from explained.txt.

There a reason stands above its survivors, each as the report writes it: its file, the changed lines before and after.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

FILES = dict.fromkeys(
    ("isolated_keeper", "isolated_worker"), "Runs in a process of its own, where mutmut sees no test reach it."
)
"""Files whose survivors all have one reason."""


def explain(stem: str, before: str, after: str) -> str:
    """Why a mutant survives."""
    return explained().get((stem, before, after)) or FILES.get(stem, "Not explained.")


@cache
def explained() -> dict[tuple[str, str, str], str]:
    """The reason for each change of a file."""
    found, reason = {}, ""
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if change := re.fullmatch(r"(\w+): `(.*)` → `(.*)`", line):
            found[change[1], change[2], change[3]] = reason
        else:
            reason = line.removeprefix("# ")
    return found
