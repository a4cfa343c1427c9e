"""Small operations on the texts of a conversation."""

from __future__ import annotations

import re

_CUT = re.compile(r"\.\.\. \[(\d{1,9}) characters cut\]\Z")  # bounded, since any author may end a text so
_MARKER = 40
"""Most characters of a marker."""
_THINKING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


def clip_text(text: str, limit: int) -> str:
    """The text, cut to `limit` characters; a marker at the end of a cut text says how many are missing, with those that
    were cut before."""
    found = _CUT.search(text, max(0, len(text) - _MARKER))
    length, before = (found.start(), int(found[1])) if found else (len(text), 0)
    if length <= limit:
        return text
    return f"{text[:limit]}... [{length - limit + before} characters cut]"


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


def without_thinking(text: str, whole: str | None = None) -> str:
    """The text without its `<think>` blocks, including an unclosed one and one that the generation prompt opened.

    Args:
        whole: a tag; what stands in its innermost blocks, outside of a thought, is data and stays as it is.
    """
    if whole is None or whole not in text:
        return _THINKING.sub("", _with_its_opening(text))
    block = rf"<{whole}>(?:(?!<{whole}>).)*?</{whole}>"
    outside = re.sub(block, "", text, flags=re.DOTALL)
    opened = _with_its_opening(outside) != outside
    parts = re.compile(rf"{_THINKING.pattern}|{block}", re.DOTALL)
    return parts.sub(lambda found: "" if found[0].startswith("<think>") else found[0], "<think>" * opened + text)


def without_first_thought(text: str) -> str:
    """The text without the thought that it begins with, which the generation prompt may have opened."""
    opened = _with_its_opening(text)
    return _THINKING.sub("", opened, count=1) if opened.lstrip().startswith("<think>") else opened


def thoughts_of(text: str) -> list[str]:
    """The contents of the blocks that `without_thinking` leaves out, in order."""
    return [text[start:stop].removeprefix("<think>").removesuffix("</think>") for start, stop in thought_spans(text)]


def thought_spans(text: str) -> list[tuple[int, int]]:
    """Where these blocks start and stop, with their tags."""
    opened = _with_its_opening(text)
    before = len(opened) - len(text)
    return [(max(0, one.start() - before), one.end() - before) for one in _THINKING.finditer(opened)]


def _with_its_opening(text: str) -> str:
    """The text, with the `<think>` in front that the generation prompt wrote for it."""
    start = text.find("</think>")
    return "<think>" + text if start >= 0 and "<think>" not in text[:start] else text
