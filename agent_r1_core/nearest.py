"""The word, or the key of a configuration, that somebody meant who mistyped it."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """`; did you mean 'x'?` with the word nearest to `word`, or an empty string if none is near."""
    known = sorted(set(words))
    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    if not near and len(word) >= 3:
        near = [other for other in known if other.startswith(word.lower())][:1]
    return f"; did you mean {near[0]!r}?" if near else ""


def nearest_key(wrong: str, valid: Collection[str]) -> str | None:
    """The valid key that `wrong` most likely means: the same last part elsewhere, else the most similar spelling."""
    if wrong in valid:
        return wrong
    parent, _, leaf = wrong.rpartition(".")
    siblings = [key for key in valid if key.rpartition(".")[0] == parent]
    close = difflib.get_close_matches(wrong, siblings, n=1, cutoff=0.75)
    if close:
        return close[0]
    same_leaf = [key for key in valid if key.rpartition(".")[2] == leaf]
    if same_leaf:
        return min(same_leaf, key=lambda key: (-difflib.SequenceMatcher(None, key, wrong).ratio(), key))
    others = [key for key in valid if not wrong.startswith(f"{key}.")]
    close = difflib.get_close_matches(wrong, others, n=1, cutoff=0.6)
    if close or parent:
        return close[0] if close else None
    leaves = {key.rpartition(".")[2]: key for key in sorted(valid, reverse=True)}
    close = difflib.get_close_matches(leaf, list(leaves), n=1, cutoff=0.7)
    return leaves[close[0]] if close else None
