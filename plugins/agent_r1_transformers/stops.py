"""Finds the sampled id that completes a stop string in the decoded text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class StopStrings:
    """Finds the id that completes a stop string; the whole token is kept.

    Decoding the whole text after every id would be quadratic. So a table comes first: only an id whose own text holds
    the last character of a stop string can complete it. Ids that decode to part of a character, or that a decoder may
    strip, are always candidates.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._pieces: dict[int, str] = {}

    def completed(self, ids: Sequence[int], strings: Sequence[str]) -> bool:
        """Whether the decoded text of `ids` contains one of the strings; without the last id it must contain none."""
        if not any(self._may_end(ids[-1], string) for string in strings):
            return False
        text = self._tokenizer.decode(list(ids))
        return any(string in text for string in strings)

    def _may_end(self, last: int, string: str) -> bool:
        piece = self._pieces.get(last)
        if piece is None:
            piece = self._pieces[last] = self._tokenizer.decode([last])
        return string[-1] in piece or string[-1].isspace() or "�" in piece or not piece
