"""The task source `arithmetic`: generated sums, for a first run with the calculator.

Answers are whole numbers. Training and evaluation share no sum, not even one with its numbers in another order. They do
share numbers, so a model may learn to add without the tool.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal

from pydantic import Field

from agent_r1_core import ComponentConfig, Task, TaskError, TaskSource

_EVAL_SHARE = 0.2
_WORDS = {"+": "Add {}.", "-": "Subtract {}.", "*": "Multiply by {}.", "/": "Divide by {}."}
_ATTEMPTS_PER_SUM = 500


class Arithmetic(TaskSource):
    """Sums such as `What is 12 + 7?`; `*` and `/` bind tighter than `+` and `-`, as usual."""

    class Config(ComponentConfig):
        operations: tuple[Literal["+", "-", "*", "/"], ...] = Field(("+", "-", "*"), min_length=1)
        """Divisions leave no remainder."""
        max_value: int = Field(99, ge=1, le=10**9)
        """The largest number in a sum; the smallest is 0."""
        terms: int = Field(2, ge=2, le=10)
        """Numbers in a sum."""
        wording: Literal["signs", "words"] = "signs"
        """`words` asks for one operation after the other: `Start with 12. Add 7. Multiply by 3. What do you get?`"""
        size: int = Field(1000, ge=1)
        """Number of different sums."""
        split: Literal["train", "eval"] = "train"
        """Four fifths of all sums are for training."""
        seed: int = 0
        """Seed of the sums."""

    def load(self) -> Sequence[Task]:
        """`size` different sums; metadata: expression.

        Raises:
            TaskError: that many different sums cannot be found.
        """
        config = self.config
        rng = random.Random(f"arithmetic/{config.split}/{config.seed}")
        tasks: dict[str, Task] = {}
        for _ in range(_ATTEMPTS_PER_SUM * config.size):
            if len(tasks) == config.size:
                break
            numbers = [rng.randint(0, config.max_value) for _ in range(config.terms)]
            signs = [rng.choice(config.operations) for _ in range(config.terms - 1)]
            words = config.wording == "words"
            value = (_in_turn if words else _value)(numbers, signs)
            if value is not None and _split(numbers, signs) == config.split:
                task = (_told if words else _task)(numbers, signs, value)
                tasks[task.id] = task
        if len(tasks) < config.size:
            raise TaskError(
                f"arithmetic found {len(tasks)} different sums with max_value={config.max_value}, terms={config.terms} "
                f"and operations={list(config.operations)} but size={config.size} was asked for; raise max_value or "
                f"terms, or lower size"
            )
        return list(tasks.values())


def _task(numbers: list[int], signs: list[str], value: int) -> Task:
    pairs = zip(signs, numbers[1:], strict=True)
    expression = " ".join([str(numbers[0]), *(f"{sign} {number}" for sign, number in pairs)])
    return Task(
        id=f"sum.{expression.replace(' ', '')}",
        prompt=f"What is {expression}?",
        answers=(str(value),),
        metadata={"expression": expression},
    )


def _told(numbers: list[int], signs: list[str], value: int) -> Task:
    steps = [_WORDS[sign].format(number) for sign, number in zip(signs, numbers[1:], strict=True)]
    pairs = zip(signs, numbers[1:], strict=True)
    expression = functools.reduce(lambda left, pair: f"({left} {pair[0]} {pair[1]})", pairs, str(numbers[0]))
    return Task(
        id=f"steps.{expression.replace(' ', '')}",
        prompt=" ".join([f"Start with {numbers[0]}.", *steps, "What do you get?"]),
        answers=(str(value),),
        metadata={"expression": expression.removeprefix("(").removesuffix(")")},
    )


def _split(numbers: list[int], signs: list[str]) -> str:
    """The same for every order of the same numbers and signs."""
    key = f"{sorted(numbers)} {sorted(signs)}".encode()
    share = int.from_bytes(blake2b(key, digest_size=8).digest()) / 2**64
    return "eval" if share < _EVAL_SHARE else "train"


def _in_turn(numbers: list[int], signs: list[str]) -> int | None:
    """The value of one operation after the other, or None if a division leaves a remainder."""
    value: int | None = numbers[0]
    for sign, number in zip(signs, numbers[1:], strict=True):
        value = None if value is None else _value([value, number], [sign])
    return value


def _value(numbers: list[int], signs: list[str]) -> int | None:
    """The value, or None if a division leaves a remainder."""
    total, product = 0, numbers[0]
    for sign, number in zip(signs, numbers[1:], strict=True):
        if sign == "*":
            product *= number
        elif sign == "/":
            if number == 0 or product % number:
                return None
            product //= number
        else:
            total, product = total + product, number if sign == "+" else -number
    return total + product
