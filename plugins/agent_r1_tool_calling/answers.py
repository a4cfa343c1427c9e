"""How a final answer is written and how it is found: in the action alone, whatever the prompt says."""

from __future__ import annotations

import re
from typing import Literal

from agent_r1_core.chat import without_thinking

AnswerStyle = Literal["tags", "boxed", "plain"]

INSTRUCTIONS: dict[AnswerStyle, str] = {
    "tags": "When you know the answer, write it, as short as possible, between <answer> and </answer>.",
    "boxed": "When you know the answer, write it, as short as possible, as \\boxed{answer}.",
    "plain": "When you know the answer, reply with the answer alone, as short as possible.",
}
"""The sentence of the default system prompt for each style."""

_TAGS = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL)
_BOXED = "\\boxed{"


def find_answer(text: str, style: AnswerStyle) -> str | None:
    """The last answer in an action, stripped; None if there is none. Thinking is not searched."""
    visible = without_thinking(text)
    if style == "plain":
        return visible.strip() or None
    if style == "boxed":
        return _last_boxed(visible)
    answers = _TAGS.findall(visible)
    return answers[-1].strip() if answers else None


def _last_boxed(text: str) -> str | None:
    """The content of the last complete box; braces nest, and `\\{` is a character."""
    answer = None
    start = text.find(_BOXED)
    while start >= 0:
        begin = start + len(_BOXED)
        stop = _closing_brace(text, begin)
        if stop is not None:
            answer = text[begin:stop].strip()
        start = text.find(_BOXED, begin if stop is None else stop)
    return answer


def _closing_brace(text: str, begin: int) -> int | None:
    depth, position = 1, begin
    while position < len(text):
        if text[position] == "\\":
            position += 2
            continue
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return position
        position += 1
    return None
