"""Text that every file, library and terminal can encode."""

from __future__ import annotations

from agent_r1_core.contracts.markup import Markup


def encodable(text: str) -> str:
    """The text with `?` for each lone surrogate, which UTF-8 cannot encode; `Markup` keeps its marks."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        clean = text.encode("utf-8", "replace").decode("utf-8")
        return Markup(clean, text.spans) if isinstance(text, Markup) else clean
    return text
