"""Evaluates an arithmetic expression with a small operator-precedence parser; it never compiles or runs Python code.

Precedence, from the loosest: `+ -`, then `* / // mod` and products written side by side (`2(3+4)`, `2 pi`), then the
sign, then powers (right to left, so `-2^2` is -4), then `!` and percent. A `%` before an operand is the remainder
(`7 % 3`); elsewhere it is a hundredth (`50%` is 0.5, also in `100 + 10%`, which is 100.1). `x` and `of` multiply.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from agent_r1_calculator.arithmetic import CONSTANTS, FUNCTIONS, SEVERAL, Number, checked, divide, factorial, power
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
    """Its commas separate arguments."""
    spaced: bool = False
    grouped: bool = False


def tokenize(expression: str, several: frozenset[str]) -> list[Token]:
    """The tokens, ending with an `end` token; `several` names the functions with several arguments.

    It reads `^`, `×`, `÷`, `·`, `−`, `²`, `√`, `π`, currency signs and thousands separators. In the call of a function
    with several arguments a comma separates them, with or without a space (`max(100,200)`); a call that mixes both,
    such as `max(1,234, 2,500)`, is refused, since its meaning is unclear.

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


MAX_CHARACTERS = 500
_MAX_DEPTH = 60
_ADVICE = "write an expression such as 12 * (3 + 4)"

_SUM: dict[str, Callable[[Number, Number], Number]] = {"+": operator.add, "-": operator.sub}
_PRODUCT: dict[str, Callable[[Number, Number], Number]] = {
    "*": operator.mul,
    "x": operator.mul,
    "of": operator.mul,
    "/": divide,
    "//": operator.floordiv,
    "%": operator.mod,
    "mod": operator.mod,
}


def evaluate(expression: str, most_numbers: int | None = None) -> Number:
    """The expression's value.

    Args:
        expression: as people and models write it.
        most_numbers: most numbers in it; None: any.

    Raises:
        ToolError: one sentence that tells the model what is wrong.
    """
    if len(expression) > MAX_CHARACTERS:
        raise ToolError(f"the expression has {len(expression)} characters; use at most {MAX_CHARACTERS}")
    if not expression.strip():
        raise ToolError("the expression is empty; write one such as 12 * (3 + 4)")
    parser = _Parser(tokenize(expression, SEVERAL))
    numbers = sum(token.kind == "number" for token in parser.tokens)
    if most_numbers is not None and numbers > most_numbers:
        raise ToolError(f"the expression has {numbers} numbers; use at most {most_numbers}, and go on with the result")
    try:
        value = parser.sum()
    except ZeroDivisionError:
        raise ToolError("division by zero is undefined; change the expression") from None
    except OverflowError:
        raise ToolError("a number became too large; use smaller numbers") from None
    except ValueError:
        raise ToolError("a function is not defined for its argument; change the expression") from None
    parser.expect_end()
    return value


class _Parser:
    """Evaluates an expression while it parses it."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def take(self, *texts: str) -> str | None:
        """Consume the token if it is one of these operators or words."""
        text = self.token.text.lower()
        if self.token.kind not in ("operator", "name") or text not in texts:
            return None
        self.position += 1
        return text

    def expect_end(self) -> None:
        if self.token.kind != "end":
            advice = "write numbers without commas" if self.token.text == "," else _ADVICE
            raise ToolError(f"{self.token.text!r} was not expected there; {advice}")

    def sum(self) -> Number:
        value = self.product()
        while sign := self.take(*_SUM):
            value = checked(_SUM[sign](value, self.product()))
        return value

    def product(self) -> Number:
        value = self.signed()
        while True:
            if sign := self.take(*_PRODUCT):
                value = checked(_PRODUCT[sign](value, self.signed()))
            elif self._begins_factor():
                value = checked(value * self.power())
            else:
                return value

    def signed(self) -> Number:
        sign = self.take("-", "+")
        if sign is None:
            return self.power()
        value = self._deeper(self.signed)
        return -value if sign == "-" else value

    def power(self) -> Number:
        base = self.postfix()
        if self.take("^", "**") is None:
            return base
        return checked(power(base, self._deeper(self.signed)))

    def postfix(self) -> Number:
        value = self.atom()
        while True:
            if self.take("!"):
                value = checked(factorial(value))
            elif self.token.text == "%" and not self._operand_follows():
                self.position += 1
                value = checked(divide(value, 100))
            else:
                return value

    def atom(self) -> Number:
        token = self.token
        self.position += token.kind != "end"
        if token.kind == "number":
            return checked(_number(token.text))
        if token.text == "(":
            return self._arguments(1, 1, "a pair of parentheses")[0]
        name = token.text.lower()
        if token.kind == "name" and name in FUNCTIONS:
            return self._call(name)
        if token.kind == "name" and name in CONSTANTS:
            return CONSTANTS[name]
        if token.kind == "name" and name not in _PRODUCT:
            known = ", ".join([*FUNCTIONS, *CONSTANTS])
            raise ToolError(f"{token.text!r} is not known; use numbers and {known}")
        raise ToolError(f"a number was expected but {_shown(token)} came; {_ADVICE}")

    def _call(self, name: str) -> Number:
        function, fewest, most = FUNCTIONS[name]
        if self.take("("):
            return checked(function(*self._arguments(fewest, most, name)))
        if fewest > 1 or self.token.kind != "number":
            raise ToolError(f"{name} needs its arguments in parentheses; write {name}(...)")
        return checked(function(self.atom()))

    def _arguments(self, fewest: int, most: int, what: str) -> list[Number]:
        values = [self._deeper(self.sum)]
        while self.take(","):
            values.append(self._deeper(self.sum))
        if self.take(")") is None:
            raise ToolError(f"a closing parenthesis is missing before {_shown(self.token)}; add it")
        if not fewest <= len(values) <= most:
            raise ToolError(f"{what} holds {len(values)} values separated by commas but takes {most}; correct that")
        return values

    def _deeper(self, read: Callable[[], Number]) -> Number:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise ToolError(f"the expression is nested more than {_MAX_DEPTH} levels deep; simplify it")
        value = read()
        self.depth -= 1
        return value

    def _begins_factor(self) -> bool:
        """Whether a factor follows without an operator: `2(3)`, `2 pi`, `(1)(2)`; two numbers in a row are an error."""
        name = self.token.kind == "name" and self.token.text.lower() in {*FUNCTIONS, *CONSTANTS}
        return name or self.token == Token("operator", "(")

    def _operand_follows(self) -> bool:
        following = self.tokens[self.position + 1]
        if following.kind == "name":
            return following.text.lower() not in _PRODUCT
        return following.kind == "number" or following.text == "("


def _shown(token: Token) -> str:
    return "the end" if token.kind == "end" else repr(token.text)


def _number(text: str) -> Number:
    plain = text.replace("_", "")
    return int(plain) if plain.isdigit() else float(plain)
