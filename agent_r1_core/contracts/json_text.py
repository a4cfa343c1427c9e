"""JSON that every reader understands; and what reading JSON from elsewhere takes, known before anything is read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

MOST_DEPTH = 100
"""Levels, counted from the outermost brackets."""
_BYTES_OF_BYTE = 6
"""A byte of text takes itself, its copy as text, and four bytes in a string that holds an emoji."""
_BYTES_OF_MARK = 80
"""A bracket, comma or colon brings at most one value or key; measured: 64, with what reading takes meanwhile."""
_NO_MARKS = bytes(set(range(256)) - set(b'"[]{},:'))
_SAME_BRACKETS = bytes.maketrans(b"{}", b"[]")
_PART = 1 << 16
"""Bytes that are looked at together."""
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Numbers that JSON lacks, by the strings that stand for them."""


def to_json(value: Any) -> str:
    """JSON that every browser reads: numbers that are none are the strings "NaN", "Infinity" and "-Infinity"."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return name_of(value)
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value


def name_of(value: float) -> str:
    """The string that stands for a number that is not finite."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def longest_json(most: int) -> int:
    """The most bytes of JSON that may take `most` bytes of memory."""
    return most // _BYTES_OF_BYTE


def check_json_size(body: bytes, most: int) -> None:
    """Raise a ValueError for JSON in UTF-8 that may take more than `most` bytes of memory, or nests too deeply."""
    outline = body if len(body) > longest_json(most) else _outline(body)
    opened = outline.count(b"[") + outline.count(b"{")
    marks = opened + outline.count(b",") + outline.count(b":")
    if len(body) * _BYTES_OF_BYTE + marks * _BYTES_OF_MARK > most:
        raise ValueError(
            f"{len(body)} bytes with {marks} brackets, commas and colons may take more than {most} bytes of memory"
        )
    if opened > MOST_DEPTH and _is_deep(outline):
        raise ValueError(f"it nests deeper than {MOST_DEPTH} levels")


def _outline(body: bytes) -> bytes:
    """The brackets, commas and colons of JSON outside its texts."""
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NO_MARKS)
    parts, inside = [], 0
    for start in range(0, len(bare), _PART):
        pieces = bare[start : start + _PART].split(b'"')
        parts.append(b"".join(pieces[inside::2]))
        inside = (inside + len(pieces) - 1) % 2
    return b"".join(parts)


def _is_deep(outline: bytes) -> bool:
    """Whether brackets nest deeper than `MOST_DEPTH`; each pass takes the innermost pairs away."""
    brackets = outline.translate(_SAME_BRACKETS, b",:")
    for _ in range(MOST_DEPTH):
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)
