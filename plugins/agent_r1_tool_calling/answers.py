"""How a final answer is written and how it is found: in the action alone, whatever the prompt says."""

from __future__ import annotations

import re
from typing import Literal

from agent_r1_core.chat import split_tagged, without_thinking

AnswerStyle = Literal["tags", "boxed", "plain"]

INSTRUCTIONS: dict[AnswerStyle, str] = {
    "tags": "When you know the answer, write it, as short as possible, between <answer> and </answer>.",
    "boxed": "When you know the answer, write it, as short as possible, as \\boxed{answer}.",
    "plain": "When you know the answer, reply with the answer alone, as short as possible.",
}
"""The sentence of the default system prompt for each style."""

_BOXED = "\\boxed{"
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)
"""Braces, and escaped characters, which are no braces."""


def find_answer(text: str, style: AnswerStyle) -> str | None:
    """The last answer in an action, stripped; None if there is none. Thinking is not searched."""
    visible = without_thinking(text)
    if style == "plain":
        return visible.strip() or None
    if style == "boxed":
        return _last_boxed(visible)
    answers, _ = split_tagged(visible, "answer")
    return answers[-1].strip() if answers else None


def _last_boxed(text: str) -> str | None:
    """The content of the last complete box; braces nest, and `\\{` is a character. Reads the text once."""
    answer: tuple[int, int] | None = None
    opened: list[int | None] = []  # where the content of each open box begins; None for any other open brace
    for match in _BRACES.finditer(text):
        position = match.start()
        if match[0] == "{":
            opened.append(position + 1 if text.endswith(_BOXED, 0, position + 1) else None)
        elif match[0] == "}" and opened:
            begin = opened.pop()
            if begin is not None:
                answer = begin, position
    return None if answer is None else text[slice(*answer)].strip()
