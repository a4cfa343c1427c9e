"""Answers are found in the action alone."""

from __future__ import annotations

import pytest
from agent_r1_tool_calling.answers import find_answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer> Tavelo\n</answer>", "Tavelo"),
        ("<answer>one</answer> no, <answer>two</answer>", "two"),
        ("<answer>one <answer>two</answer>", "two"),
        ("<answer>cut", None),
        ("<think><answer>one</answer></think>", None),
        ("Tavelo", None),
    ],
)
def test_tags(text, answer):
    assert find_answer(text, "tags") == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("\\boxed{\\frac{1}{2}} is it", "\\frac{1}{2}"),
        ("\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"),
        ("\\boxed{1} then \\boxed{2", "1"),
        ("\\boxed{a \\boxed{b}", "b"),
        ("{ \\boxed{a \\boxed{b} c} } \\boxed{", "a \\boxed{b} c"),
        ("} \\\\boxed{1}", "1"),
        ("\\boxed{1 \\} {2}", None),
        ("\\boxed{" * 50_000 + "1}", "1"),
        ("42", None),
    ],
)
def test_boxed(text, answer):
    assert find_answer(text, "boxed") == answer


@pytest.mark.parametrize(("text", "answer"), [(" Tavelo\n", "Tavelo"), ("<think>hm</think>42", "42"), (" ", None)])
def test_plain(text, answer):
    assert find_answer(text, "plain") == answer
