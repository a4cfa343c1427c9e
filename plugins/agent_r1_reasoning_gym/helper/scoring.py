"""Scores an answer without running it: two sets have exact scorers here, and those of seven others read data.

reasoning-gym's scorers of these nine call `eval`, or `parse_expr` of sympy, which calls it; a file that an answer named
was written in a trial. game_of_life_halting pays any answer at all, since it compares `bool("False")`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from importlib import import_module
from typing import Any

import sympy

NONSENSE = "I do not know"
LONGEST = 200
"""Characters of an exact expression."""
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS = ("exp", "log", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "Abs")


def exact(text: str) -> tuple[Fraction, list[int]]:
    """The value of an expression of whole numbers with + - * / and brackets, and its numbers in order.

    Raises:
        ValueError: it is anything else, or divides by zero.
    """
    numbers: list[int] = []

    def value(node: ast.expr) -> Fraction:
        match node:
            case ast.Constant(int() as number) if not isinstance(number, bool):
                numbers.append(number)
                return Fraction(number)
            case ast.UnaryOp(ast.USub(), operand):
                return -value(operand)
            case ast.BinOp(left, sign, right) if type(sign) in _OPERATORS:
                first, second = value(left), value(right)
                result: Fraction = _OPERATORS[type(sign)](first, second)
                return result
        raise ValueError("an expression has whole numbers, + - * / and brackets only")

    if len(text) > LONGEST:
        raise ValueError(f"an expression has at most {LONGEST} characters")
    try:
        return value(ast.parse(text.strip(), mode="eval").body), numbers
    except (SyntaxError, ZeroDivisionError, RecursionError, MemoryError) as error:
        raise ValueError(str(error)) from error


def _reaches(answer: str, numbers: list[int], target: int) -> float:
    try:
        value, used = exact(answer)
    except ValueError:
        return 0.0
    return float(value == target and sorted(used) == sorted(numbers))


OWN: dict[str, Callable[[str, Mapping[str, Any]], float]] = {
    "countdown": lambda answer, entry: _reaches(answer, entry["metadata"]["numbers"], entry["metadata"]["target"]),
    "puzzle24": lambda answer, entry: _reaches(answer, entry["metadata"]["numbers"], 24),
    "game_of_life_halting": lambda answer, entry: float(answer.strip() == str(entry["answer"])),
}


def formula(text: str, local_dict: Mapping[str, Any] | None = None) -> Any:
    """A formula of names, numbers, + - * / ** and the usual functions, as sympy's `parse_expr` makes it of text."""
    known = {"pi": sympy.pi, "E": sympy.E, **(local_dict or {})}

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(int() | float() as number) if not isinstance(number, bool):
                return sympy.sympify(number)
            case ast.Name(name):
                return known.get(name) or sympy.Symbol(name)
            case ast.UnaryOp(ast.USub(), operand):
                return -value(operand)
            case ast.Call(ast.Name(name), [argument], []) if name in _FUNCTIONS:
                return getattr(sympy, name)(value(argument))
            case ast.BinOp(left, ast.Pow(), right):
                return value(left) ** value(right)
            case ast.BinOp(left, sign, right) if type(sign) in _OPERATORS:
                return _OPERATORS[type(sign)](value(left), value(right))
        raise ValueError("a formula has names, numbers, + - * / ** and functions only")

    return value(ast.parse(text.strip(), mode="eval").body)


class _Sympy:
    """sympy, whose `parse_expr` evaluates nothing."""

    parse_expr = staticmethod(formula)

    def __getattr__(self, name: str) -> Any:
        return getattr(sympy, name)


def run_no_answer() -> None:
    """Put readers of data in the place of `eval` and `parse_expr` in the modules of the seven scorers."""
    for name in ("binary_matrix", "spiral_matrix", "string_insertion"):
        import_module(f"reasoning_gym.algorithmic.{name}").eval = ast.literal_eval  # type: ignore[attr-defined]
    import_module("reasoning_gym.games.n_queens").eval = ast.literal_eval  # type: ignore[attr-defined]
    for name in ("simple_integration", "intermediate_integration"):
        import_module(f"reasoning_gym.algebra.{name}").sympy = _Sympy()  # type: ignore[attr-defined]
    import_module("reasoning_gym.algebra.polynomial_multiplication").sp = _Sympy()  # type: ignore[attr-defined]
    for name in ("countdown", "puzzle24"):  # never called
        del import_module(f"reasoning_gym.games.{name}").parse_expr


def score(data_set: Any, entry: Mapping[str, Any], answer: str, partial: bool) -> float:
    """Between 0 and 1; raises whatever the scorer raises."""
    own = OWN.get(entry["metadata"].get("source_dataset"))
    if own is not None:
        return own(answer, entry)
    points = float(data_set.score_answer(answer, entry))
    if points >= 1 or not partial:
        return float(points >= 1)
    floor = float(data_set.score_answer(NONSENSE, entry))
    return max(0.0, (points - floor) / (1 - floor)) if floor < 1 else 0.0
