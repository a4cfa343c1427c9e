"""Cuts an expression, as people and models write it, into numbers, names and operators.

It reads `^`, `×`, `÷`, `·`, `−`, `²`, `√`, `π`, currency signs and thousands separators. In the call of a function with
several arguments a comma separates them, with or without a space (`max(100,200)`); a call that mixes both, such as
`max(1,234, 2,500)`, is refused, since its meaning is unclear.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent_r1_core import ToolError

_SIGNS = str.maketrans(
    {"×": "*", "⋅": "*", "·": "*", "∙": "*", "∗": "*", "÷": "/", "∕": "/", "⁄": "/", "−": "-", "–": "-", "—": "-"}
    | {"‐": "-", "‑": "-", "π": " pi ", "√": " sqrt ", "²": "^2", "³": "^3", "[": "(", "]": ")", "{": "(", "}": ")"}
    | {"$": " ", "€": " ", "£": " ", "\u00a0": " ", "\u202f": " "}
)
_GROUPED = r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?!,?[0-9])"
_PLAIN = r"(?:[0-9]+(?:_[0-9]+)*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_TOKEN = re.compile(
    rf"\s*(?:(?P<grouped>(?<![0-9.,]){_GROUPED}(?:\.[0-9]+)?)|(?P<number>{_PLAIN})"
    r"|(?P<name>log(?:2|10)(?![0-9])|[A-Za-z]+)|(?P<operator>\*\*|//|[-+*/%^(),!]))"
)
_SEPARATED = re.compile(rf"\s*(?P<number>{_PLAIN})")
_HEXADECIMAL = re.compile(r"(?<![0-9.])0[xXbBoO][0-9a-fA-F]")


@dataclass(frozen=True)
class Token:
    """A piece of an expression; `kind` is `number`, `name`, `operator` or `end`."""

    kind: str
    text: str


@dataclass
class _Parenthesis:
    separates: bool
    """Whether its commas separate arguments."""
    spaced: bool = False
    grouped: bool = False


def tokenize(expression: str, several: frozenset[str]) -> list[Token]:
    """The tokens, ending with an `end` token; `several` names the functions with several arguments.

    Raises:
        ToolError: a character or a comma is not understood.
    """
    text = re.sub(r"\s*=\s*\??\s*$", "", expression.translate(_SIGNS))
    if _HEXADECIMAL.search(text):
        raise ToolError("hexadecimal, octal and binary numbers are not understood; write decimal numbers")
    tokens: list[Token] = []
    open_: list[_Parenthesis] = []
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise ToolError(f"{text[position:].strip()[0]!r} is not part of an arithmetic expression; leave it out")
        if match["grouped"] and open_ and open_[-1].separates:
            open_[-1].grouped = True
            match = _SEPARATED.match(text, position) or match
        position = match.end()
        kind = match.lastgroup or ""
        tokens.append(Token("number" if kind == "grouped" else kind, match[kind].replace(",", "") or ","))
        _follow(tokens, open_, several, text[position : position + 1].isspace())
    return [*tokens, Token("end", "")]


def _follow(tokens: list[Token], open_: list[_Parenthesis], several: frozenset[str], space: bool) -> None:
    """Track open parentheses and how their commas are written."""
    token = tokens[-1]
    if token == Token("operator", "("):
        called = tokens[-2] if len(tokens) > 1 else token
        open_.append(_Parenthesis(called.kind == "name" and called.text.lower() in several))
    elif token == Token("operator", ")") and open_:
        open_.pop()
    elif token == Token("operator", ",") and open_:
        open_[-1].spaced |= space
    if open_ and open_[-1].spaced and open_[-1].grouped:
        raise ToolError("a comma in this call may group thousands or separate arguments; write 1234, not 1,234")
