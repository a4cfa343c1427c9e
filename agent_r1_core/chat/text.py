"""Small operations on the texts of a conversation."""

from __future__ import annotations

import re

_CUT = re.compile(r"\.\.\. \[\d{1,9} characters cut\]")  # bounded, since any author may end a text so
_THINKING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


def clip_text(text: str, limit: int) -> str:
    """The text, cut to `limit` characters; a marker at the end of a cut text says how many are missing. A text that was
    cut so before stays as it is."""
    if len(text) <= limit or _CUT.fullmatch(text, limit):
        return text
    return f"{text[:limit]}... [{len(text) - limit} characters cut]"


def split_tagged(text: str, tag: str) -> tuple[list[str], str]:
    """The contents of the innermost `<tag>...</tag>` blocks, in order, and the text without these blocks."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    *closed, last = text.split(closing)
    contents, rest = [], []
    for piece in closed:
        before, opened, content = piece.rpartition(opening)
        if opened:
            contents.append(content)
        rest.append(before if opened else piece + closing)
    return contents, "".join((*rest, last))


def opened_thought(text: str) -> str:
    """The `<think>` that a text ends with, white space included; empty if it ends otherwise."""
    _, opened, rest = text.rpartition("<think>")
    return opened + rest if opened and not rest.strip() else ""


def without_thinking(text: str) -> str:
    """The text without its `<think>` blocks, including an unclosed one and one that the generation prompt opened."""
    return _THINKING.sub("", _with_its_opening(text))


def thoughts_of(text: str) -> list[str]:
    """The contents of the blocks that `without_thinking` leaves out, in order."""
    blocks = _THINKING.findall(_with_its_opening(text))
    return [block.removeprefix("<think>").removesuffix("</think>") for block in blocks]


def _with_its_opening(text: str) -> str:
    """The text, with the `<think>` in front that the generation prompt wrote for it."""
    start = text.find("</think>")
    return "<think>" + text if start >= 0 and "<think>" not in text[:start] else text
