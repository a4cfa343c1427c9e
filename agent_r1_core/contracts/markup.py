"""Markup: text of a message in which control tokens count; and text that every file, library and terminal can encode.

Control tokens in plain text are data: they become ordinary ids, whatever they spell (LAW 1). What the author of a tool
format or an environment writes around data is Markup.
"""

from __future__ import annotations

from collections.abc import Iterable


class Markup(str):
    """Text that may hold control tokens, such as `Markup("<information>") + text + Markup("</information>")`.

    Addition and `join` keep track of the parts that are markup. Everything else that one does with text, f-strings
    included, gives plain text, so a forgotten mark is on the safe side. Never mark text that you did not write.
    """

    spans: tuple[tuple[int, int], ...]
    """Start and stop of each part that is markup; the rest is data."""

    def __new__(cls, text: str = "", spans: Iterable[tuple[int, int]] | None = None) -> Markup:
        """Mark the whole text, or only its `spans`."""
        self = super().__new__(cls, text)
        self.spans = ((0, len(text)),) if spans is None else tuple(spans)
        return self

    @classmethod
    def of(cls, parts: Iterable[str]) -> Markup:
        """One text from several; plain parts are data."""
        parts, spans, length = list(parts), list[tuple[int, int]](), 0
        for part in parts:
            for start, stop in part.spans if isinstance(part, Markup) else ():
                begin = length + start
                if spans and spans[-1][1] == begin:
                    begin = spans.pop()[0]
                spans.append((begin, length + stop))
            length += len(part)
        return cls("".join(parts), spans)

    def __add__(self, other: str) -> Markup:
        return Markup.of((self, other))

    def __radd__(self, other: str) -> Markup:
        return Markup.of((other, self))

    def join(self, parts: Iterable[str]) -> Markup:
        """The parts with this text between them."""
        return Markup.of([text for part in parts for text in (self, part)][1:])


def encodable(text: str) -> str:
    """The text with `?` for each lone surrogate, which UTF-8 cannot encode; `Markup` keeps its marks."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        clean = text.encode("utf-8", "replace").decode("utf-8")
        return Markup(clean, text.spans) if isinstance(text, Markup) else clean
    return text
