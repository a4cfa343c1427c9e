"""Shows text of models, tools and files on a terminal without letting it act there.

Control characters (ECMA-48) and marks that turn the direction of text (Unicode, UAX 9) appear as escapes. Letters that
merely look like others stay as they are.
"""

from __future__ import annotations

import re

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # all control characters except tab and line feed
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # direction marks, separators of lines and paragraphs
    "\ud800-\udfff]"  # lone surrogates, which no encoding has
)


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
