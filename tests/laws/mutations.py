"""Planted faults: for every law, small patches that break it. `test_planted_faults.py` applies each to a copy of the
source and sees the law's own test fail."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """One fault: in `file`, the text `old`, which stands there exactly once, becomes `new`."""

    law: int
    name: str
    file: str
    old: str
    new: str
    tests: str = ""
    """A pytest -k expression, where one of the law's tests is enough to see it; empty: all of the law's tests."""


MUTATIONS: tuple[Mutation, ...] = ()
