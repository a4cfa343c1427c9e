from __future__ import annotations

import operator
from typing import Any

import pytest
from agent_r1_arithmetic.source import Arithmetic

from agent_r1_core import Task, TaskError
from agent_r1_core.testing import TaskSourceContract


class TestArithmetic(TaskSourceContract):
    component = Arithmetic


def sums(**options: Any) -> list[Task]:
    return list(Arithmetic(Arithmetic.Config(**options)).load())


@pytest.mark.parametrize(
    "options",
    [{}, {"terms": 5}, {"operations": ("/",)}, {"operations": ("+", "-", "*", "/"), "terms": 4, "max_value": 20}],
)
def test_every_answer_is_the_value_of_its_expression(options: dict[str, Any]) -> None:
    tasks = sums(size=100, **options)
    assert len({task.id for task in tasks}) == 100
    assert sums(size=100, **options) == tasks != sums(size=100, seed=1, **options)
    for task in tasks:
        assert task.prompt == f"What is {task.metadata['expression']}?"
        assert float(task.answers[0]) == eval(task.metadata["expression"])


def test_words_ask_for_one_operation_after_the_other() -> None:
    operations = {"Add": operator.add, "Subtract": operator.sub, "Multiply": operator.mul, "Divide": operator.floordiv}
    for task in sums(size=100, terms=4, max_value=20, operations=("+", "-", "*", "/"), wording="words"):
        start, *steps, question = task.prompt.split(". ")
        value = int(start.removeprefix("Start with "))
        for step in steps:
            value = operations[step.split()[0]](value, int(step.split()[-1]))
        assert question == "What do you get?"
        assert task.answers == (str(value),)
        assert eval(task.metadata["expression"]) == value


def test_training_and_evaluation_share_no_sum_in_any_order_and_not_more_are_asked_than_there_are() -> None:
    def keys(split: str) -> set[tuple[str, ...]]:
        tasks = sums(size=400, max_value=30, split=split)
        return {tuple(sorted(task.metadata["expression"].split())) for task in tasks}

    assert keys("train").isdisjoint(keys("eval"))
    with pytest.raises(TaskError, match="different sums with max_value=2"):
        sums(size=100, max_value=2, operations=("+",))
