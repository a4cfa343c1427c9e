"""The word that somebody meant who mistyped it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """`; did you mean 'x'?` with the word nearest to `word`, or an empty string if none is near."""
    known = sorted(set(words))
    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    if not near and len(word) >= 3:
        near = [other for other in known if other.startswith(word.lower())][:1]
    return f"; did you mean {near[0]!r}?" if near else ""
