"""The built-in rewards keep the contract of rewards."""

from __future__ import annotations

from typing import ClassVar

from agent_r1_rewards.answers import F1, ExactMatch
from agent_r1_rewards.calls import ValidToolCall
from agent_r1_rewards.form import ExactMatchWithFormat, Format
from agent_r1_rewards.length import Overlong
from agent_r1_rewards.numbers import NumericMatch
from agent_r1_rewards.titles import SupportingTitles

from agent_r1_core.testing import RewardContract, make_task, make_trajectory

TWO = make_task(answers=("2", "two"))
RIGHT = make_trajectory(task=TWO, answer="Two.")
WRONG = make_trajectory(task=TWO, answer="3")
NUMBER = make_task(answers=("2",))


class TestExactMatch(RewardContract):
    component = ExactMatch
    cases = ((RIGHT, 1.0), (WRONG, 0.0))


class TestF1(RewardContract):
    component = F1
    cases = ((RIGHT, 1.0), (WRONG, 0.0))


class TestNumericMatch(RewardContract):
    component = NumericMatch
    cases = ((make_trajectory(task=NUMBER, answer="$2.00"), 1.0), (make_trajectory(task=NUMBER, answer="two"), 0.0))
    examples = (make_trajectory(task=NUMBER, answer=""), make_trajectory(task=NUMBER, answer=None))


class TestFormat(RewardContract):
    component = Format


class TestExactMatchWithFormat(RewardContract):
    component = ExactMatchWithFormat


class TestValidToolCall(RewardContract):
    component = ValidToolCall


class TestSupportingTitles(RewardContract):
    component = SupportingTitles
    cases = ((make_trajectory(task=make_task(metadata={"path": ["9", "6 7"]})), 0.0),)
    examples = ()


class TestOverlong(RewardContract):
    component = Overlong
    config: ClassVar = {"max_tokens": 8, "cache": 4}
    cases = ((make_trajectory([((1,), (2,))]), 0.0), (make_trajectory([((1,), tuple(range(9)))]), -1.0))
