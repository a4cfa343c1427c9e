"""Reads an arithmetic expression, exactly and without running it: whole numbers, + - * / and brackets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

_TOKEN = re.compile(r"\s*(?:(\d{1,9})|([-+*/()]))")
MOST = 200
"""Longest expression in characters; brackets cannot be nested more deeply than that."""


@dataclass(frozen=True)
class Expression:
    """What an expression says."""

    value: Fraction
    numbers: tuple[int, ...]
    """The numbers that it uses, in order."""


def read_expression(text: str) -> Expression:
    """The value of an expression, and its numbers.

    Raises:
        ValueError: it cannot be read, or divides by zero; the message is a sentence for its author.
    """
    if len(text) > MOST:
        raise ValueError(f"an expression has at most {MOST} characters")
    tokens: list[str] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError("an expression has whole numbers, + - * / and brackets only")
        tokens.append(match[1] or match[2])
        position = match.end()
    reader = _Reader(tokens)
    value = reader.sum()
    if reader.left:
        raise ValueError(f"the expression goes on after its end, with {reader.left[-1]}")
    return Expression(value, tuple(int(token) for token in tokens if token.isdigit()))


class _Reader:
    """Recursive descent: a sum of products of numbers and brackets."""

    def __init__(self, tokens: list[str]) -> None:
        self.left = tokens[::-1]

    def sum(self) -> Fraction:
        value = self.product()
        while self.left and self.left[-1] in "+-":
            sign = 1 if self.left.pop() == "+" else -1
            value += sign * self.product()
        return value

    def product(self) -> Fraction:
        value = self.factor()
        while self.left and self.left[-1] in "*/":
            if self.left.pop() == "*":
                value *= self.factor()
            else:
                divisor = self.factor()
                if divisor == 0:
                    raise ValueError("the expression divides by zero")
                value /= divisor
        return value

    def factor(self) -> Fraction:
        token = self.left.pop() if self.left else "its end"
        if token.isdigit():
            return Fraction(int(token))
        if token != "(":
            raise ValueError(f"the expression has {token} where a number should be")
        value = self.sum()
        if not self.left or self.left.pop() != ")":
            raise ValueError("the expression has a bracket that is not closed")
        return value
