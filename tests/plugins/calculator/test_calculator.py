from __future__ import annotations

import math
import random
from typing import Any, ClassVar

import pytest
from agent_r1_calculator.evaluator import evaluate
from agent_r1_calculator.tool import Calculator, format_number

from agent_r1_core import ToolError
from agent_r1_core.testing import ToolContract


class TestCalculator(ToolContract):
    component = Calculator
    arguments: ClassVar = {"expression": "12 + 7"}
    expected = "19"
    refused: ClassVar = {"expression": "1 / 0"}


def calculate(expression: str) -> str:
    context: Any = None
    return Calculator().run(Calculator.Arguments(expression=expression), context)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2^10", "1024"),
        ("2**10", "1024"),
        ("1,234,567.5 * 2", "2469135"),
        ("3 × 4", "12"),
        ("5 − 7", "-2"),
        ("50%", "0.5"),
        ("20% of 50", "10"),
        ("50% - 20%", "0.3"),
        ("$80,000 + $50,000 =", "130000"),
        ("12 + 7 = ?", "19"),
        ("2(3+4)", "14"),
        ("2π", "6.28318530718"),
        ("-2^2", "-4"),
        ("2^3^2", "512"),
        ("3² + √16", "13"),
        ("5!", "120"),
        ("1/3", "0.333333333333"),
        ("1.5e-9", "1.5e-09"),
        ("123456789 * 987654321", "121932631112635269"),
        ("sqrt(1,024)", "32"),
        ("round(-2.675, 2)", "-2.68"),
        ("round(1234, -2)", "1200"),
        ("min(3, 1, 2) + abs(-4)", "5"),
        ("log(8, 2)", "3"),
        ("gcd(12, 18) + lcm(4, 6)", "18"),
        ("average(1, 2, 6)", "3"),
    ],
)
def test_an_expression_means_what_a_person_means(expression: str, value: str) -> None:
    assert calculate(expression) == value


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("9**9**9", "more than 4096 bits"),
        ("factorial(10^9)", "factorial takes a whole number"),
        ("round(1,-10**9)", "round takes a whole number of digits"),
        ("1e400", "not a finite number"),
        ("(-8)**(1/3)", "not a real number"),
        ("1/0", "division by zero"),
        ("0x10", "hexadecimal"),
        ("sqrt(-1)", "not defined for its argument"),
        ("x + 3", "a number was expected but 'x' came"),
        ("'%0999999999d' % 1", "not part of an arithmetic expression"),
        ("2 3", "'3' was not expected"),
        ("1,23", "',' was not expected there; write numbers without commas"),
        ("max(1,234, 2,500)", "group thousands or separate arguments"),
        ("pow(2)", "pow holds 1 values"),
        ("(1", "closing parenthesis is missing before the end"),
        ("1)", r"'\)' was not expected"),
        ("max", "max needs its arguments in parentheses"),
        ("", "expression is empty"),
        ("1+" * 250 + "1", "has 501 characters; use at most 500"),
        ("(" * 200 + "1" + ")" * 200, "nested more than 60 levels"),
    ],
)
def test_what_has_no_value_gets_one_sentence(expression: str, sentence: str) -> None:
    with pytest.raises(ToolError, match=sentence) as caught:
        calculate(expression)
    assert "\n" not in str(caught.value)


def test_random_input_gives_a_short_number_or_a_tool_error_and_nothing_else() -> None:
    rng = random.Random(7)
    pieces = [
        *"0123456789.,()+-*/%^! exX×÷√²\x00é",
        "**",
        "//",
        "max(",
        "round(",
        "lcm(",
        "log",
        "1,234",
        "pi",
        "9" * 40,
    ]
    finished = 0
    for _ in range(6000):
        expression = "".join(rng.choices(pieces, k=rng.randint(1, 30)))
        try:
            value = evaluate(expression)
        except ToolError:
            continue
        finished += 1
        assert math.isfinite(value) if isinstance(value, float) else value.bit_length() <= 4096
        assert len(format_number(value)) <= 1240
    assert finished > 100


def test_well_formed_random_sums_agree_with_python() -> None:
    rng = random.Random(8)
    for _ in range(500):
        expression = str(rng.randint(0, 99))
        for _ in range(rng.randint(1, 6)):
            expression += rng.choice([" + ", " - ", " * ", "-", " * ("]) + str(rng.randint(0, 99))
        expression += ")" * expression.count("(")
        assert calculate(expression) == str(eval(expression))


def test_a_small_calculator_takes_so_many_numbers_and_no_more() -> None:
    assert evaluate("-12 * 3", most_numbers=2) == -36
    with pytest.raises(ToolError, match="has 3 numbers; use at most 2"):
        evaluate("12 + 7 * 3", most_numbers=2)
