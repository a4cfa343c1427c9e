"""Keys of a configuration: how to write and parse them, and which valid key is nearest to a mistyped one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

from agent_r1_core.plugins.validation import Key, key_text

__all__ = ["Key", "key_text", "nearest", "parse_key"]


def parse_key(text: str) -> tuple[str, ...] | None:
    """The parts of `tools.0.top_k` or `tools[0].top_k`, or None if the text is not a key."""
    parts = tuple(re.sub(r"\[(\d+)\]", r".\1", text.strip()).split("."))
    return parts if all(re.fullmatch(r"[A-Za-z_]\w*|\d+", part) for part in parts) else None


def nearest(wrong: str, valid: Collection[str]) -> str | None:
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
