"""Failures: the episodes of an evaluation that infrastructure broke. They are in no score, and stand beside each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LONGEST_REASON = 300
"""Characters of a reason that are shown."""


@dataclass(frozen=True)
class Failures:
    """How many episodes failed, and why most of them did."""

    episodes: int
    """Those that failed."""
    of: int
    """All."""
    reason: str
    """The commonest one, as the first of its episodes says it; empty: it was not recorded."""
    alike: int
    """Failed episodes with this reason; numbers in it may differ."""
    at_least: bool = False
    """Whether there may be more of these: of several sets, each tells only of its own commonest reason."""

    @classmethod
    def among(cls, reasons: Sequence[str], of: int) -> Failures | None:
        """Those of an evaluation with so many episodes, from the reason of each; None: no episode failed."""
        if not reasons:
            return None
        said = [reason[:LONGEST_REASON] for reason in reasons if reason] or list(reasons)
        ((commonest, alike),) = Counter(map(_kind, said)).most_common(1)
        first = next(reason for reason in said if _kind(reason) == commonest)
        return cls(len(reasons), of, first, alike)

    @classmethod
    def together(cls, sets: Iterable[tuple[Failures | None, int]]) -> Failures | None:
        """Those of several sets, each with the number of its episodes."""
        every = list(sets)
        found = [failures for failures, _ in every if failures is not None]
        if not found:
            return None
        alike = Counter[str]()
        for failures in found:
            alike[_kind(failures.reason)] += failures.alike
        ((commonest, count),) = alike.most_common(1)
        reason = next(failures.reason for failures in found if _kind(failures.reason) == commonest)
        # A set with another commonest reason may have failures with this one among its rest.
        hidden = any(one.at_least or (one.alike < one.episodes and _kind(one.reason) != commonest) for one in found)
        episodes, of = sum(one.episodes for one in found), sum(asked for _, asked in every)
        return cls(episodes, of, reason, count, hidden)

    def sentence(self) -> str:
        """`failed and not scored: 29 of 100 episodes (28 of them: the prompt does not fit)`."""
        text = f"failed and not scored: {self.episodes} of {self.of} episodes"
        if not self.reason:
            return text
        many = f"{'at least ' * self.at_least}{self.alike} of them: "
        return f"{text} ({many * (self.alike < self.episodes)}{self.reason})"


def _kind(reason: str) -> str:
    """What reasons have in common that differ in a number only, such as a prompt's length."""
    return re.sub(r"\d+", "#", reason)
