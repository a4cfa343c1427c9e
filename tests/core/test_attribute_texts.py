"""What `help()` shows of the classes that authors use."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc

import pytest

import agent_r1_core
from agent_r1_core import Step
from agent_r1_core.learning.batch import Advantages, Batch
from agent_r1_core.learning.loss import LossTerms, LossTokens


@pytest.mark.parametrize(
    ("name", "attribute", "text"),
    [
        ("EndStatus", "TRUNCATED", "A budget or a time limit cut it."),
        ("AlgorithmConfig", "horizon", "in tokens; no effect with the others."),
        ("Metric", "unit", "empty for a plain number."),
    ],
)
def test_a_docstring_has_the_texts_of_attributes(name, attribute, text):
    shown = inspect.getdoc(getattr(agent_r1_core, name)) or ""
    (line,) = [line for line in shown.splitlines() if line.startswith(f"    {attribute}: ")]
    assert line.endswith(text)


@pytest.mark.parametrize("cls", [Batch, Advantages, LossTokens, LossTerms])
def test_help_says_what_each_field_of_an_algorithms_data_holds(cls):
    shown = pydoc.render_doc(cls)
    for field in dataclasses.fields(cls):
        assert f" |      {field.name}: " in shown, f"{cls.__name__}.{field.name} has no text"


def test_a_class_of_an_author_keeps_its_own_docstring():
    class Mine(Step):
        """Mine."""

    assert Mine.__doc__ == "Mine."
    assert Step.__doc__.startswith("The environment's answer to an action.\n\nAttributes:")
