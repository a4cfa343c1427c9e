"""Countdown: its tasks, its judgement, and an expression reader that runs nothing."""

from __future__ import annotations

import itertools
import random
import re
from fractions import Fraction
from typing import ClassVar

import pytest
from agent_r1_countdown.env import Countdown, draw, read_expression

from agent_r1_core import Action, Step, Task
from agent_r1_core.testing import ToolEnvContract


class TestCountdown(ToolEnvContract):
    component = Countdown
    config: ClassVar = {"tries": 3}
    actions = ("<answer>1 + 1</answer>", "Hm.", "<answer>1 +</answer>")


@pytest.fixture
def env() -> Countdown:
    """Numbers 4 6 9 and the target 30, with three tries."""
    env = Countdown(Countdown.Config(tries=3, legal_reward=0.1))
    env.reset(Task("t", "Begin.", seed=1))
    env._numbers, env._target = (4, 6, 9), 30
    return env


def give(env: Countdown, expression: str) -> Step:
    return env.step(Action(f"<answer>{expression}</answer>"))


def test_a_task_shows_numbers_and_a_target_that_can_be_reached() -> None:
    for seed in range(60):
        numbers, target = draw(random.Random(seed), 3, 20)
        assert all(1 <= number <= 20 for number in numbers)
        assert target in reachable([Fraction(number) for number in numbers])
    env = Countdown()
    text = env.reset(Task("t", "Begin.", seed=1)).messages[0]["content"]
    assert re.search(r"<answer>\(1 \+ 2\) \* 3</answer>\.\nNumbers: \d+ \d+ \d+\. Target: \d+\.$", text)


def reachable(values: list[Fraction]) -> set[Fraction]:
    if len(values) == 1:
        return set(values)
    found: set[Fraction] = set()
    for i, j in itertools.permutations(range(len(values)), 2):
        rest = [value for k, value in enumerate(values) if k not in (i, j)]
        a, b = values[i], values[j]
        for value in (a + b, a - b, a * b, *([a / b] if b else [])):
            found |= reachable([*rest, value])
    return found


def test_a_miss_learns_its_value_and_may_try_again_until_every_number_once_gives_the_target(env: Countdown) -> None:
    step = give(env, "(9 - 4) * 6")
    assert (step.success, step.reward, step.terminated, step.answer) == (True, 1.0, True, "(9 - 4) * 6")
    env.reset(Task("t", "Begin.", seed=1))
    env._numbers, env._target = (4, 6, 9), 30
    step = give(env, "9 + 6 / 4")
    assert (step.success, step.reward, step.terminated, step.info) == (False, 0.1, False, {"legal": 1.0})
    assert step.observation.messages[0]["content"] == "That is 21/2, not 30. Try again."
    give(env, "4 + 6 + 9")
    last = give(env, "4 * 6 + 9")
    assert (last.terminated, last.success, last.observation.messages) == (True, False, [])


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("6 * 5", "must use each of 4 6 9 once"),
        ("4 + 6 +", "has its end where a number should be"),
        ("(4 + 6 * 9", "bracket that is not closed"),
        ("4 6 9", "goes on after its end, with 6"),
        ("4 / (6 - 6) + 9", "divides by zero"),
        ("__import__('os')", "whole numbers"),
    ],
)
def test_what_breaks_the_rules_says_which_and_is_no_success(env: Countdown, expression: str, sentence: str) -> None:
    step = give(env, expression)
    assert sentence in step.errors[0]
    assert (step.success, step.reward, step.info) == (False, 0.0, {"legal": 0.0})
    assert step.observation.messages[0]["content"] == f"Error: {step.errors[0]}."


def test_a_huge_expression_is_refused_before_it_is_read() -> None:
    for text in ("9" * 100_000, "(" * 100_000, "*".join(["999999999"] * 20), "-" * 150 + "1", " " * 100_000):
        assert give(Countdown(), text).errors


def test_expressions_bind_as_in_arithmetic() -> None:
    values = {"2 - 3 - 4": -5, "2 - (3 - 4)": 3, "12 / 4 / 3": 1, "1 + 2 * 3": 7, "1/3*3": 1}
    assert {text: read_expression(text).value for text in values} == values
