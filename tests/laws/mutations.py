"""Planted faults: for every law, small patches that break it. `test_planted_faults.py` applies each to a copy of the
source and sees the law's own test fail.

Most of them stood in real systems of this field, in other words. They stand in `mutations.diff`, a blank line between
two of them: `LAW NAME in FILE -k TESTS`, then lines with - that the file holds exactly once, together and perhaps as
parts of its lines, and lines with + that take their place. Without a + the lines go altogether. `LAW NAME in FILE by
FILE_OF_TESTS -k TESTS` names tests of a component that keep the law for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HEADER = re.compile(r"(\d+) (\S+) in (\S+)(?: by (\S+))? -k (.+)")


@dataclass(frozen=True)
class Mutation:
    """One fault: in `file`, the text `old`, which stands there exactly once, becomes `new`."""

    law: int
    name: str
    file: str
    old: str
    new: str
    tests: str
    """A pytest -k expression: the quickest of the law's tests that sees it."""
    by: str | None = None
    """The file of these tests; None: those of the law."""


def read(patch: str) -> Mutation:
    """A fault as `mutations.diff` writes it."""
    header, *lines = patch.splitlines()
    found = HEADER.fullmatch(header)
    assert found, f"mutations.diff: {header!r} is no `LAW NAME in FILE -k TESTS`"
    law, name, file, by, tests = found.groups()
    old, new = ("\n".join(line[1:] for line in lines if line[0] == sign) for sign in "-+")
    assert len(lines) == sum(line[0] in "-+" for line in lines), f"mutations.diff: a line of {name} begins with neither"
    whole = not any(line[0] == "+" for line in lines)
    return Mutation(int(law), name, file, old + "\n" * whole, new, tests, by)


MUTATIONS = tuple(map(read, Path(__file__).with_suffix(".diff").read_text().strip().split("\n\n")))
