"""Draws numbers as a line of small bars in a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN = "_.:-=+*#"
"""Where the encoding lacks blocks."""


def sparkline(values: Sequence[float], width: int, encoding: str | None = None) -> str:
    """One character a value, from the lowest bar for the least to the highest for the largest.

    Args:
        values: what is no finite number is left blank.
        width: the most characters; of more values, neighbours are drawn as their mean.
        encoding: of the stream that the line goes to; None: UTF-8.
    """
    bars = BLOCKS if _has_blocks(encoding) else PLAIN
    means = [_mean(part) for part in _parts(values, width)]
    finite = [mean for mean in means if mean is not None]
    if not finite:
        return " " * len(means)
    low, high = min(finite), max(finite)
    # Halves, since the difference of two finite numbers may be infinite.
    span = high / 2 - low / 2
    top = len(bars) - 1
    return "".join(
        " " if mean is None else bars[round((mean / 2 - low / 2) / span * top) if span else 0] for mean in means
    )


def span_text(values: Sequence[float]) -> str:
    """The range that a sparkline of these values is scaled to: `0.285 to 0.96`; empty if none is finite."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    low, high = f"{min(finite):.3g}", f"{max(finite):.3g}"
    return low if low == high else f"{low} to {high}"


def _has_blocks(encoding: str | None) -> bool:
    try:
        BLOCKS.encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _parts(values: Sequence[float], width: int) -> list[Sequence[float]]:
    count = min(len(values), max(width, 0))
    return [values[part * len(values) // count : (part + 1) * len(values) // count] for part in range(count)]


def _mean(values: Sequence[float]) -> float | None:
    finite = [value for value in values if math.isfinite(value)]
    return sum(value / len(finite) for value in finite) if finite else None
