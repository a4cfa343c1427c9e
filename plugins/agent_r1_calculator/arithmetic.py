"""The operations and functions of the calculator, each bounded so that no input takes long or needs much memory.

Whole numbers are exact up to 4,096 bits; everything else is a float. Angles are in radians, halves are rounded away
from zero, and `log` of one argument is natural.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext

from agent_r1_core import ToolError

Number = int | float

MAX_BITS = 4096
_MAX_FACTORIAL = 500
_MAX_DIGITS = 15


def checked(value: Number | complex) -> Number:
    """The value itself.

    Raises:
        ToolError: it is not real, not finite, or too large.
    """
    if isinstance(value, complex):
        raise ToolError("the result is not a real number; change the expression")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise ToolError(f"a number with more than {MAX_BITS} bits came up; use smaller numbers")
    if isinstance(value, float) and not math.isfinite(value):
        raise ToolError("the result is not a finite number; use smaller numbers")
    return value


def divide(left: Number, right: Number) -> Number:
    """Divide; the result is exact if whole numbers leave no remainder."""
    if isinstance(left, int) and isinstance(right, int) and right and left % right == 0:
        return left // right
    return left / right


def power(base: Number, exponent: Number) -> Number:
    """Raise to a power; refuses one that would be too large before computing it."""
    if isinstance(base, int) and isinstance(exponent, int) and exponent >= 0:
        if abs(base) > 1 and (abs(base).bit_length() - 1) * exponent >= MAX_BITS:
            raise ToolError(f"the power has more than {MAX_BITS} bits; use smaller numbers")
        return checked(base**exponent)
    return checked(float(base) ** exponent)


def factorial(value: Number) -> Number:
    """The factorial of a whole number from 0 to 500."""
    if value != int(value) or not 0 <= value <= _MAX_FACTORIAL:
        raise ToolError(f"factorial takes a whole number from 0 to {_MAX_FACTORIAL}; use one")
    return math.factorial(int(value))


def _round(value: Number, digits: Number = 0) -> Number:
    if digits != int(digits) or abs(digits) > _MAX_DIGITS:
        raise ToolError(f"round takes a whole number of digits from -{_MAX_DIGITS} to {_MAX_DIGITS}; use one")
    with localcontext() as context:
        context.prec = MAX_BITS
        rounded = Decimal(str(value)).quantize(Decimal(1).scaleb(-int(digits)), rounding=ROUND_HALF_UP)
    return int(rounded) if digits <= 0 else float(rounded)


def _sqrt(value: Number) -> Number:
    if isinstance(value, int) and value >= 0 and math.isqrt(value) ** 2 == value:
        return math.isqrt(value)
    return math.sqrt(value)


def _log(value: Number, base: Number = math.e) -> Number:
    return math.log(value) if base == math.e else math.log2(value) if base == 2 else math.log(value, base)


def _average(*values: Number) -> Number:
    return divide(sum(values), len(values))


CONSTANTS: dict[str, Number] = {"pi": math.pi, "e": math.e}

FUNCTIONS: dict[str, tuple[Callable[..., Number], int, int]] = {
    "abs": (abs, 1, 1),
    "average": (_average, 1, 500),
    "avg": (_average, 1, 500),
    "mean": (_average, 1, 500),
    "ceil": (math.ceil, 1, 1),
    "floor": (math.floor, 1, 1),
    "round": (_round, 1, 2),
    "sqrt": (_sqrt, 1, 1),
    "exp": (math.exp, 1, 1),
    "ln": (math.log, 1, 1),
    "log": (_log, 1, 2),
    "log2": (math.log2, 1, 1),
    "log10": (math.log10, 1, 1),
    "sin": (math.sin, 1, 1),
    "cos": (math.cos, 1, 1),
    "tan": (math.tan, 1, 1),
    "asin": (math.asin, 1, 1),
    "acos": (math.acos, 1, 1),
    "atan": (math.atan, 1, 1),
    "factorial": (factorial, 1, 1),
    "gcd": (lambda *values: math.gcd(*map(_whole, values)), 1, 500),
    "lcm": (lambda *values: _lcm(*map(_whole, values)), 1, 500),
    "max": (lambda *values: max(values), 1, 500),
    "min": (lambda *values: min(values), 1, 500),
    "sum": (lambda *values: sum(values), 1, 500),
    "pow": (power, 2, 2),
}
"""Name -> function, fewest and most arguments."""

SEVERAL = frozenset(name for name, (_, _, most) in FUNCTIONS.items() if most > 1)
"""Functions in whose calls commas separate arguments."""


def _lcm(*values: int) -> Number:
    result = 1
    for value in values:
        result = int(checked(math.lcm(result, value)))
    return result


def _whole(value: Number) -> int:
    if value != int(value):
        raise ToolError("gcd and lcm take whole numbers; use some")
    return int(value)
