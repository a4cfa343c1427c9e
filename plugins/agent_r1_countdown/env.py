"""The environment `countdown`: reach the target with the given numbers, each of them once (TinyZero; RAGEN 2504.20073).

The target is the value of a random expression of all numbers, so it can be reached. Some targets have many solutions,
and every one counts. With one try a task is a single turn; with more the policy learns what its expression gives.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from fractions import Fraction

from pydantic import Field

from agent_r1_core import (
    Action,
    ComponentConfig,
    EnvConfig,
    EnvServices,
    Markup,
    Metric,
    Observation,
    Step,
    Task,
    ToolEnv,
)
from agent_r1_core.chat import split_tagged, without_thinking

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


CUT = "the reply was cut off before an expression; be shorter"
NONE = Markup("no expression; write it between <answer> and </answer>")


class CountdownConfig(EnvConfig):
    """Options of `countdown`."""

    numbers: int = Field(3, ge=2, le=6)
    """How many numbers there are."""
    highest: int = Field(20, ge=2)
    """Numbers are between 1 and this."""
    tries: int = Field(1, ge=1)
    """Expressions that the policy may give; after a wrong one it learns the value, if it may try again."""
    legal_reward: float = 0.0
    """Reward of each try that uses the numbers correctly and misses the target; reaching it pays 1. With several tries
    a positive one pays for being late, a negative one for being quick."""
    rules: str | None = None
    """What stands before the numbers; null: what to do and how to write it; empty: nothing."""


class Countdown(ToolEnv):
    """Numbers, a target, one or several tries."""

    Config = CountdownConfig
    metrics = (Metric("legal", "tries that use each number once", unit="share", better="higher"),)

    def __init__(self, config: ComponentConfig | None = None, services: EnvServices | None = None) -> None:
        super().__init__(config, services)
        self._numbers: tuple[int, ...] = ()
        self._target, self._tries = 0, 0

    @classmethod
    def uses_tools(cls) -> bool:
        return False

    def instructions(self) -> str:
        """What to do and how to write it."""
        say = "Reach the target with + - * / and brackets; use each number once. Write the expression as "
        return Markup.of([say, Markup("<answer>"), "(1 + 2) * 3", Markup("</answer>"), "."])

    def reset(self, task: Task) -> Observation:
        """Draw the numbers and the target from the task."""
        rng = random.Random(task.id if task.seed is None else task.seed)
        self._numbers, self._target = draw(rng, self.config.numbers, self.config.highest)
        self._tries = 0
        question = f"Numbers: {' '.join(map(str, self._numbers))}. Target: {self._target}."
        rules = self.instructions() if self.config.rules is None else Markup(self.config.rules)
        return self._say(Markup.of([rules, "\n", question]) if rules else question)

    def step(self, action: Action) -> Step:
        """Judge an expression; one that cannot be read counts as a try, too."""
        self._tries += 1
        answers, _ = split_tagged(without_thinking(action.whole), "answer")
        answer, error, value = None, CUT if action.cut else NONE, None
        if answers:
            answer, error = answers[-1].strip(), ""
            try:
                expression = read_expression(answer)
                value = expression.value
                if sorted(expression.numbers) != sorted(self._numbers):
                    error = f"the expression must use each of {' '.join(map(str, self._numbers))} once"
            except ValueError as problem:
                error = str(problem)
        success = not error and value == self._target
        over = success or self._tries >= self.config.tries
        return Step(
            Observation() if over else self._say(self._told(error, value)),
            reward=1.0 if success else 0.0 if error else self.config.legal_reward,
            terminated=over,
            answer=answer if over else None,
            success=success,
            errors=[error] if error else [],
            info={"legal": float(not error)},
        )

    def _told(self, error: str, value: Fraction | None) -> str:
        if error:
            return Markup.of(["Error: ", error, "."])
        return f"That is {value}, not {self._target}. Try again."

    def _say(self, text: str) -> Observation:
        key = f"{' '.join(map(str, self._numbers))} = {self._target} ({self._tries})"
        return Observation([{"role": "user", "content": text}], state_key=key)


def draw(rng: random.Random, count: int, highest: int) -> tuple[tuple[int, ...], int]:
    """Numbers and a target that all of them reach: a whole number from 1 to 999."""
    while True:
        numbers = [rng.randint(1, highest) for _ in range(count)]
        values = [Fraction(number) for number in rng.sample(numbers, count)]
        while len(values) > 1:
            first, second = values.pop(rng.randrange(len(values))), values.pop(rng.randrange(len(values)))
            results = [first + second, first - second, first * second, *([first / second] if second else [])]
            values.append(rng.choice(results))
        if values[0].denominator == 1 and 1 <= values[0] <= 999:
            return tuple(numbers), int(values[0])
