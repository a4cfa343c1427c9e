"""Shows text of models, tools and files on a terminal without letting it act there, and numbers as a line of bars.

Control characters (ECMA-48) and marks that turn the direction of text (Unicode, UAX 9) appear as escapes. Letters that
merely look like others stay as they are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # all control characters except tab and line feed
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # direction marks, separators of lines and paragraphs
    "\ud800-\udfff]"  # lone surrogates, which no encoding has
)
BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN = "_.:-=+*#"
"""Bars where the encoding lacks blocks."""


def shown(text: str, encoding: str | None = None) -> str:
    """The text with escapes such as `\\x1b` for what a terminal would obey and for what `encoding` lacks.

    Args:
        text: any text; line feeds and tabs stay.
        encoding: of the stream that the text goes to; None: UTF-8.
    """
    harmless = _OBEYED.sub(lambda found: repr(found.group())[1:-1], text)
    return harmless.encode(encoding or "utf-8", "backslashreplace").decode(encoding or "utf-8")


def shown_in_line(text: str) -> str:
    """The same on one line: line feeds and tabs are escapes, too."""
    return shown(text).replace("\n", "\\n").replace("\t", "\\t")


def sparkline(values: Sequence[float], width: int, encoding: str | None = None) -> str:
    """One character a value, from the lowest bar for the least to the highest for the largest.

    Args:
        values: what is no finite number is left blank.
        width: the most characters; of more values, neighbours are drawn as their mean.
        encoding: of the stream that the line goes to; None: UTF-8.
    """
    bars = BLOCKS if shown(BLOCKS, encoding) == BLOCKS else PLAIN
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


def _parts(values: Sequence[float], width: int) -> list[Sequence[float]]:
    count = min(len(values), max(width, 0))
    return [values[part * len(values) // count : (part + 1) * len(values) // count] for part in range(count)]


def _mean(values: Sequence[float]) -> float | None:
    finite = [value for value in values if math.isfinite(value)]
    return sum(value / len(finite) for value in finite) if finite else None
